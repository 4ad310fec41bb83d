"""Settings that follow the data: the rule, what the user set, the schedule of training.minutes, and warnings."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest
import torch

from regard.core.data_size import DataSize, measure_texts
from regard.training import plan, plan_warnings
from regard.training import recipe as recipes
from regard.training.checkpoint import BestEvaluation, Progress
from regard.training.console import LineConsole, SilentConsole
from regard.training.plan import Times, derive_optimizer, derive_schedule, derive_settings
from regard.training.recipe import PlanRequest
from regard.training.recipe_files import packaged_recipes
from regard.training.run_folder import RunFolder, read_recipe
from regard.training.train import resume, train

SUBJECTS, VERBS = ("cats", "dogs", "birds", "cooks", "kids"), ("see", "hear", "like", "know", "find")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Write 120 sentence pairs of few words."""
    draw = random.Random(1)
    path = tmp_path / "pairs.tsv"
    rows = [(draw.choice(SUBJECTS), draw.choice(VERBS), draw.choice(SUBJECTS), str(i)) for i in range(120)]
    path.write_text("".join(f"{a} {b} {c} {n}\t{c} {a} {b} {n}\n" for a, b, c, n in rows), encoding="utf-8")
    return path


def translation(*settings: str) -> recipes.Recipe:
    return recipes.read("translation", settings=["data.path=pairs.tsv", *settings])


def test_own_data_without_sizes_follows_the_data() -> None:
    assert translation().plan == PlanRequest(frozenset({"task", "data.path"}), follows_data=True)
    assert translation("model.dim=64").plan is None
    assert translation("model.preset=small").plan is None
    assert recipes.read("translation").plan is None  # built-in data
    requested = recipes.read("translation", settings=["model.preset=auto", "model.dim=64"]).plan
    assert requested is not None and requested.follows_data and "model.dim" in requested.explicit


@pytest.mark.parametrize("name", sorted(packaged_recipes()))
def test_no_recipe_is_changed_by_a_plan(name: str) -> None:
    path = packaged_recipes()[name]
    task = recipes.configs.read_toml(path)["task"]
    assert recipes.read(task, path).plan is None


def test_a_demo_is_not_planned() -> None:
    from regard.core.registry import find, registered_names

    for task in registered_names("regard.tasks"):
        assert recipes.read(task, settings=find("regard.tasks", task).DEMO).plan is None, task


def test_small_data_gets_a_small_vocabulary_and_model() -> None:
    """3,000 pairs with the alphabet of Korean: the case that ended at BLEU 0.04 with the defaults."""
    derived = derive_settings(DataSize("pair", 2_999, characters=90_000, alphabet=1_100), translation())
    assert derived["model.preset"] == "small" and derived["model.dropout"] == 0.3
    assert derived["data.vocab_size"] == 1_500 and derived["data.max_batch_tokens"] == 2_048
    assert derived["training.epochs"] == 39


@pytest.mark.parametrize("examples", [1, 500, 5_000, 50_000, 5_000_000])
@pytest.mark.parametrize("task", ["translation", "classification", "tagging", "image_classification", "recommendation"])
def test_derived_settings_are_valid_for_every_size(task: str, examples: int) -> None:
    recipe = recipes.read(task, settings=["data.path=x", "model.preset=auto"])
    size = DataSize("example", examples, characters=40 * examples, alphabet=60)
    planned = plan._apply(recipe, derive_settings(size, recipe))
    assert planned.training.epochs is None or 2 <= planned.training.epochs <= 100
    default, batch_size = (getattr(config, "batch_size", 16) for config in (recipe.task.config, planned.task.config))
    assert default / 2 <= batch_size <= 4 * default and batch_size & (batch_size - 1) == 0


def test_more_examples_never_mean_a_smaller_vocabulary_or_more_epochs() -> None:
    sizes = [DataSize("pair", count, 40 * count, 60) for count in (100, 1_000, 10_000, 100_000)]
    derived = [derive_settings(size, translation()) for size in sizes]
    assert [row["data.vocab_size"] for row in derived] == sorted(row["data.vocab_size"] for row in derived)
    epochs = [row["training.epochs"] for row in derived]
    assert epochs == sorted(epochs, reverse=True)


def test_models_with_hidden_matrices_are_trained_by_muon_and_others_keep_the_optimizer_of_the_task() -> None:
    recipe = recipes.read("image_classification", settings=["data.path=x"])
    derived = derive_optimizer(recipe, torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)))
    assert derived == {"training.optimizer.name": "muon", "training.optimizer.lr": pytest.approx(0.003)}
    assert derive_optimizer(recipe, torch.nn.Conv2d(3, 4, 3)) == {}
    wide = derive_optimizer(translation(), torch.nn.Embedding(9, 4))  # the default width is 512
    assert wide == {"training.optimizer.lr": pytest.approx(0.003 * 128 / 512)}


def test_a_learning_rate_of_the_user_keeps_the_optimizer(pairs: Path) -> None:
    settings = [f"data.path={pairs}", "training.epochs=1", "training.optimizer.lr=0.002"]
    (planned, _), _ = plan.prepare(recipes.read("translation", settings=settings), _build, torch.device("cpu"))
    assert (planned.training.optimizer.name, planned.training.optimizer.lr) == ("adam", 0.002)


def test_minutes_are_filled_by_steps_and_few_evaluations() -> None:
    recipe = translation("training.minutes=2")
    schedule = derive_schedule(recipe, steps_per_epoch=20, times=Times(step=0.2, evaluation=5.0))
    steps, every = schedule["training.steps"], schedule["training.evaluation.every"]
    assert 0.2 * steps + 5.0 * -(-steps // every) <= 120 and 0.2 * steps >= 0.65 * 120
    assert schedule["training.schedule.warmup"] == round(0.1 * steps)
    slow = derive_schedule(recipe, steps_per_epoch=20, times=Times(step=60.0, evaluation=500.0))
    assert slow["training.steps"] >= 1 and slow["training.schedule.warmup"] <= slow["training.steps"]


def test_a_planned_run_stores_its_settings_and_resumes_bit_for_bit(pairs: Path, tmp_path: Path) -> None:
    settings = [f"data.path={pairs}", "training.epochs=6", "decoding=greedy", "data.vocab_size=300"]
    settings += ["training.files.save_every=1"]
    stream = io.StringIO()
    train(recipes.read("translation", settings=settings), tmp_path / "whole", console=LineConsole(stream))
    assert " pairs: preset small, tokens in a batch 1,024, dropout 0.3" in stream.getvalue()
    recipe = read_recipe(RunFolder(tmp_path / "whole"))
    assert (recipe.model.config.dim, recipe.task.config.vocab_size, recipe.training.epochs) == (128, 300, 6)
    assert recipe.training.schedule.name == "cosine" and recipe.plan is None

    class Stopped(Exception):
        """Ends a training like a crash."""

    def stop(*_: object, step: int, **__: object) -> None:
        if step == 3:
            raise Stopped

    half = recipes.read("translation", settings=settings)
    with pytest.raises(Stopped):
        train(half, tmp_path / "half", console=SilentConsole(), step_callback=stop)
    resume(tmp_path / "half", console=SilentConsole())
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("half", "whole")]
    assert files[0] == files[1]


def test_minutes_are_planned_from_measured_times(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "measure_times", lambda *_: Times(step=1.0, evaluation=1.0))
    recipe = recipes.read("translation", settings=[f"data.path={pairs}", "training.minutes=0.25", "decoding=greedy"])
    (planned, notes), _ = plan.prepare(recipe, _build, torch.device("cpu"))
    assert planned.plan is None and planned.training.minutes == 0.25
    assert planned.training.steps == 12 and planned.training.evaluation.every == 6
    assert notes[1] == "batches of 512 tokens, so that training.minutes holds more steps"
    assert notes[2].startswith(
        "planned: 12 steps of muon with learning rate 0.003, warm-up 6 steps, then cosine, evaluated every 6 steps"
    )


def test_batches_shrink_until_the_minutes_hold_enough_steps(pairs: Path) -> None:
    settings = [f"data.path={pairs}", "training.minutes=2"]
    recipe = plan.plan_data(recipes.read("translation", settings=settings)).recipe
    assert recipe.task.config.max_batch_tokens == 1_024
    assert plan.smaller_batches(recipe, steps=plan.MIN_PLANNED_STEPS) is None
    assert plan.smaller_batches(recipe, steps=plan.MIN_PLANNED_STEPS // 2) == 512
    assert plan.smaller_batches(recipe, steps=1) == plan.MIN_BATCH_TOKENS
    explicit = recipes.read("translation", settings=[*settings, "data.max_batch_tokens=1024"])
    assert plan.smaller_batches(plan.plan_data(explicit).recipe, steps=1) is None


@pytest.mark.parametrize(("step_s", "dropout"), [(0.001, 0.3), (4.0, 0.1)])
def test_a_budget_of_few_epochs_has_little_dropout(
    pairs: Path, monkeypatch: pytest.MonkeyPatch, step_s: float, dropout: float
) -> None:
    monkeypatch.setattr(plan, "measure_times", lambda *_: Times(step=step_s, evaluation=0.1))
    monkeypatch.setattr(plan, "FEW_EPOCHS", 30)  # the pairs of the test fill two batches
    recipe = recipes.read("translation", settings=[f"data.path={pairs}", "training.minutes=0.5"])
    (planned, _), _ = plan.prepare(recipe, _build, torch.device("cpu"))
    assert planned.model.config.dropout == dropout


def test_times_are_measured_on_the_task_itself(pairs: Path) -> None:
    recipe = plan.plan_data(recipes.read("translation", settings=[f"data.path={pairs}", "training.minutes=0.2"])).recipe
    times = plan.measure_times(recipe, _build(recipe), torch.device("cpu"))
    assert 0 < times.step < 20 and 0 < times.evaluation < 600


def _build(recipe: recipes.Recipe):
    from regard.training.train import build_task

    return build_task(recipe)


def test_texts_are_measured_by_side() -> None:
    assert measure_texts("pair", [("ab", "가나다"), ("b", "라")]) == DataSize(
        "pair", 2, characters=4, alphabet=4, hangul_share=4 / 7
    )
    assert measure_texts("pair", []) == DataSize("pair", 0)


def test_korean_documents_are_split_into_subwords_and_tagged_units_are_not() -> None:
    size = DataSize("document", 5_000, 100_000, alphabet=1_200, hangul_share=0.7)
    documents = recipes.read("classification", settings=["data.path=x"])
    derived = derive_settings(size, documents)
    assert (derived["data.tokenizer"], derived["data.vocab_size"]) == ("unigram", 2_500)
    assert "data.tokenizer" not in derive_settings(size._replace(hangul_share=0.1), documents)
    assert "data.tokenizer" not in derive_settings(size, recipes.read("tagging", settings=["data.path=x"]))


def test_batches_of_histories_follow_the_users_not_the_ratings() -> None:
    recipe = recipes.read("recommendation", settings=["data.path=x"])
    assert derive_settings(DataSize("rating", 80_000, rows=943), recipe)["data.batch_size"] == 16


def test_a_warm_up_longer_than_the_training_is_a_warning() -> None:
    config = translation("training.steps=70", "training.schedule.warmup=400").training
    (warning,) = plan_warnings.warmup_warnings(config, 70)
    assert "the warm-up of 400 steps is longer than the training (70 steps)" in warning
    assert "never rises above 18% of its peak; set training.schedule.warmup=7" in warning
    assert plan_warnings.warmup_warnings(config, 400) == []


def test_a_vocabulary_larger_than_a_third_of_the_examples_is_a_warning(pairs: Path) -> None:
    recipe = recipes.read("translation", settings=[f"data.path={pairs}", "data.vocab_size=200", "model.preset=small"])
    (warning,) = plan_warnings.vocabulary_warnings(recipe, _build(recipe), 108)
    assert "tokens is larger than a third of the 108 examples" in warning and "data.vocab_size" in warning
    assert plan_warnings.vocabulary_warnings(recipe, _build(recipe), 10_000) == []


def test_far_fewer_steps_than_planned_are_a_warning() -> None:
    config = translation("training.minutes=2", "training.steps=400", "training.schedule.warmup=40").training
    (warning,) = plan_warnings.at_end(config, Progress(step=58, ended="minutes"), total=400)
    assert "only 58 of the 400 planned steps were done in training.minutes=2" in warning
    assert warning.endswith("continue with --resume and training.minutes=14")
    assert plan_warnings.at_end(config, Progress(step=390, ended="minutes"), total=400) == []
    assert plan_warnings.at_end(config, Progress(step=58, ended="patience"), total=400) == []
    in_warmup = plan_warnings.at_end(config, Progress(step=30, ended="minutes"), total=None)
    assert len(in_warmup) == 1
    assert in_warmup[0].startswith(
        "warning: training ended in its warm-up (step 30 of 40); set a smaller training.sched"
    )


def test_validation_that_never_improved_is_a_warning() -> None:
    config = translation("training.steps=9").training
    best = BestEvaluation(step=3, score=0.1, rule="first evaluation")
    (warning,) = plan_warnings.at_end(config, Progress(step=9, ended="steps", best=best, evaluations=3), total=9)
    assert "validation never improved after the first of 3 evaluations (step 3)" in warning
    assert plan_warnings.at_end(config, Progress(step=9, ended="steps", best=best, evaluations=2), total=9) == []


def test_the_values_used_are_in_the_configuration(pairs: Path, tmp_path: Path) -> None:
    settings = [f"data.path={pairs}", "training.steps=1", "decoding=greedy"]
    run = train(recipes.read("translation", settings=settings), tmp_path / "run", console=SilentConsole())
    table = json.loads((run / "config.json").read_text(encoding="utf-8"))
    assert table["model"]["layers"] == 2 and "plan" not in table and "preset" not in table["model"]


def test_choices_of_the_model_leave_its_sizes_to_the_plan() -> None:
    """Before, model.norm=post on 108 pairs trained 44 million parameters with a warm-up of 400 steps."""
    for setting in ("model.norm=post", "model.dropout=0.2", "model.score=additive", "model=luong"):
        assert translation(setting).plan is not None, setting
    planned = plan._apply(translation("model.norm=post"), {"model.preset": "small"})
    assert (planned.model.config.norm, planned.model.config.dim) == ("post", 128)
    for setting in ("model.layers=3", "model.preset=base"):
        assert translation(setting).plan is None, setting


@pytest.fixture
def tags(tmp_path: Path) -> Path:
    """Write 60 tagged sentences."""
    draw = random.Random(1)
    rows = [(draw.choice(("Anna", "Tom")), draw.choice(VERBS), draw.choice(("Paris", "Rome"))) for _ in range(60)]
    sentences = (f"{a} B-PER\n{b}{i} O\n{c} B-LOC\n" for i, (a, b, c) in enumerate(rows))
    path = tmp_path / "tags.conll"
    path.write_text("\n".join(sentences), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ([], "tagger"),
        (["training.minutes=0.5"], "bilstm_crf"),
        (["training.minutes=30"], "tagger"),
        (["training.minutes=0.5", "model=tagger"], "tagger"),
        (["training.minutes=0.5", "model.preset=auto", "model.position=learned"], "tagger"),
    ],
)
def test_few_minutes_train_the_model_that_the_task_declares_for_them(
    tags: Path, settings: list[str], model: str
) -> None:
    planned = plan.plan_data(recipes.read("tagging", settings=[f"data.path={tags}", *settings]))
    assert planned.recipe.model.name == model
    is_named = "model bilstm_crf for few minutes (model=tagger: the default), preset short" in planned.notes[0]
    assert is_named == (model == "bilstm_crf")


def test_a_model_may_declare_the_optimizer_of_its_plan() -> None:
    recipe = recipes.read("tagging", settings=["data.path=x", "model=bilstm_crf"])
    derived = derive_optimizer(recipe, torch.nn.LSTM(4, 4))
    assert derived == {"training.optimizer.name": "adam", "training.optimizer.lr": 0.01}


def test_characters_that_are_tagged_get_n_grams() -> None:
    recipe = recipes.read("tagging", settings=["data.path=x"])
    characters = DataSize("sentence", 2_928, characters=171_000, alphabet=1_300, unit_length=1.0)
    assert derive_settings(characters, recipe)["model.ngrams"] == 2**16
    assert derive_settings(characters._replace(characters=5_000), recipe)["model.ngrams"] == 2**14
    assert "model.ngrams" not in derive_settings(characters._replace(unit_length=4.3), recipe)
    bert = recipes.read("tagging", settings=["data.path=x", "model=bert"])
    assert "model.ngrams" not in derive_settings(characters, bert)


def test_the_length_of_units_is_measured(tags: Path) -> None:
    from regard.tasks import tagging

    words = tagging.measure(tagging.Config(path=tags))
    assert 3 < words.unit_length < 6 and words.examples == 54
    assert tagging.measure(tagging.Config(path=tags, units="characters")).unit_length == 1
    assert tagging.measure(tagging.Config(path=tags, units="tokens")).unit_length == 0
