"""Every task that is listed keeps its laws with every model that fits it: a new file is tested by being there."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from regard.attention.record import attention_modules, record
from regard.core import checksums
from regard.core import config as configs
from regard.core.describe import describe, source_path
from regard.core.inspectable import AxisRef, Inspectable
from regard.core.registry import find, registered_names
from regard.core.state_tree import map_tensors
from regard.core.task import Task
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.tasks import compatible_models
from regard.training import recipe as recipes

TASKS = registered_names("regard.tasks")
PAIRS = [(task, model) for task in TASKS for model in compatible_models(find("regard.tasks", task).SIZES)]
STEPS = 120  # within which two examples are learnt


class Brief(DecodingStrategy):
    """The decoder of a recipe, whose outputs have a few tokens: an untrained model would go on for long."""

    def __call__(self, *given: Any, limits: torch.Tensor, **how: Any) -> Any:
        return super().__call__(*given, limits=limits.clamp(max=6), **how)


class Case(NamedTuple):
    """A task on little data, loaded from a run folder, with a model that fits."""

    module: Any
    task: Task
    model: Any
    decoding: DecodingStrategy | None


def config_of(name: str) -> Any:
    """Little of the built-in data: the file's TINY, or else what its demo trains on."""
    module = find("regard.tasks", name)
    if hasattr(module, "TINY"):
        return module.TINY
    return recipes.read(name, settings=[setting for setting in module.DEMO if setting.startswith("data.")]).task.config


@lru_cache
def built(name: str) -> Task:
    task: Task = find("regard.tasks", name).build(config_of(name))
    return task


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What each task saved, by its name."""
    saved = {}
    for name in TASKS:
        saved[name] = tmp_path_factory.mktemp(name.replace(".", "_"))
        built(name).save(saved[name])
    return saved


@pytest.fixture(params=PAIRS, ids="-".join)
def case(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Case:
    name, model = request.param
    module, network = find("regard.tasks", name), find("regard.models", model)
    task = module.load(config_of(name), folders[name])
    torch.manual_seed(0)
    decoding = recipes.read(name).decoding
    brief = None if decoding is None else Brief(decoding.name, decoding.config)
    return Case(module, task, network.build(network.TINY, task.sizes), brief)


@pytest.mark.parametrize("name", TASKS)
def test_the_file_says_what_it_is(name: str) -> None:
    module, path = find("regard.tasks", name), source_path("regard.tasks", name)
    assert module.VERB.isalpha() and module.VERB.islower()
    task = built(name)
    assert isinstance(task, Task) and type(task.spec) is module.SIZES
    for kind in ("Config", "Options"):
        settings = describe(path, kind)
        assert settings is not None and settings.summary
        assert [s.name for s in settings.settings if not (s.default and s.comment)] == []
    assert module.Options() == configs.from_dict(module.Options, {}, "options")


@pytest.mark.parametrize("name", TASKS)
def test_defaults_and_demo_are_recipes(name: str) -> None:
    module = find("regard.tasks", name)
    for settings in ([], module.DEMO):
        recipe = recipes.read(name, settings=settings)
        assert recipe.model.name in compatible_models(module.SIZES)
        assert recipes.from_dict(recipe.to_dict()) == recipe
    assert any(setting.startswith("training.") for setting in module.DEMO)


@pytest.mark.parametrize("name", TASKS)
def test_training_begins_with_how_much_there_is_in_each_split_and_the_first_of_it(name: str) -> None:
    """`sentences: train 60, valid 6; 9 tags; a vocabulary of 500 tokens`, then `first sentence: …`."""
    counts, first = built(name).data_summary()
    assert re.match(r"[a-z ]+: train [\d,]+(, \w+ [\d,]+)*; .*\d", counts)
    assert set(re.findall(r"[:,] ([a-z]+) \d", counts.split(";")[0])) == set(built(name).fingerprint())
    assert re.match(r"first [a-z ]+(, \w+ -> \w+)?: \S", first) and len(first) < 300 and "\n" not in first
    assert re.fullmatch(r"[a-z]+", built(name).throughput_unit)


@pytest.mark.parametrize("name", TASKS)
def test_the_plan_is_the_seed_s(name: str) -> None:
    task = built(name)
    plans = [task.epoch_batches(epoch, seed) for epoch, seed in ((0, 1), (0, 1), (0, 2), (1, 1))]
    assert all(len(batch) for plan in plans for batch in plan)
    numbers = [[batch.tolist() for batch in plan] for plan in plans]
    assert numbers[0] == numbers[1]
    assert numbers[0] != numbers[2] and numbers[0] != numbers[3]


@pytest.mark.parametrize("name", TASKS)
def test_saved_loaded_saved_is_the_same(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    module = find("regard.tasks", name)
    for number, restored in enumerate((module.load, module.build)):  # without the data, and beside it
        task = restored(config_of(name), folders[name])
        assert task.sizes == built(name).spec and task.goal == built(name).target_metric
        again = tmp_path / str(number)
        again.mkdir()
        task.save(again)
        first, second = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in (folders[name], again))
        assert first == second


def test_loss_falls(case: Case) -> None:
    """A handful of examples is learnt by heart."""
    task, model = case.task, case.model.train()
    batch = task.collate(task.epoch_batches(0, 1)[0][:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    losses: list[float] = []
    while not losses or losses[-1] > 0.6 * losses[0]:
        loss = task.loss(model, batch)
        assert loss.count > 0 and all(part.isfinite() for part in loss.parts.values())
        losses.append(loss.total.item() / loss.count)
        assert len(losses) < STEPS, losses
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()


def test_a_step_in_half_precision_is_near_the_exact_one(case: Case) -> None:
    """bfloat16 is what `precision = "auto"` is on GPUs, and can be asked for on processors that have it."""
    task, model = case.task, case.model.eval()
    batch = task.collate(task.epoch_batches(0, 1)[0][:2])
    losses = []
    for half in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            losses.append(task.loss(model, batch).total)
    assert losses[1].dtype == torch.float32
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=0.05)
    losses[1].backward()
    assert all(p.grad.dtype == p.dtype and p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_the_loss_of_a_batch_is_that_of_its_examples(case: Case) -> None:
    """Counts add up, so that accumulation and many processes are exact."""
    task, model = case.task, case.model.eval()
    examples = task.epoch_batches(0, 1)[0][:4]
    if checksum(task.collate(examples)) != checksum(task.collate(examples)):
        return  # what is drawn at random for a batch is drawn anew for its parts
    with torch.no_grad():
        whole, first, rest = (task.loss(model, task.collate(part)) for part in (examples, examples[:1], examples[1:]))
    assert whole.count == first.count + rest.count
    assert float(whole.total) == pytest.approx(float(first.total + rest.total), rel=1e-4)


def checksum(batch: Any) -> str:
    return checksums.hash_batches([batch])


def test_batches_can_be_moved(case: Case) -> None:
    batch = case.task.collate(case.task.epoch_batches(0, 1)[0][:2])
    assert type(map_tensors(batch, lambda x: x.to("cpu"))) is type(batch)


def test_the_goal_is_among_the_scores(case: Case) -> None:
    task, model = case.task, case.model.train()
    scores = task.evaluate(model, "valid", case.decoding)
    assert np.isfinite(scores[task.target_metric.metric])
    assert model.training  # as it was
    assert all(isinstance(value, float) for value in scores.values())


def test_every_example_is_answered_alike_alone_and_beside_others(case: Case) -> None:
    """Each comes first once: what is drawn may depend on the place in the batch."""
    task, model, options = case.task, case.model.eval(), case.module.Options()
    inputs = [task.parse_input(text) for text in task.examples]
    assert inputs and task.predict(model, [], options, case.decoding) == []
    for number in range(len(inputs)):
        several = [*inputs[number:], *inputs[:number]]
        beside = task.predict(model, several, options, case.decoding)
        assert len(beside) == len(inputs)
        (alone,) = task.predict(model, several[:1], options, case.decoding)
        assert [answer.text for answer in beside[0]] == [answer.text for answer in alone]
        for one, other in zip(beside[0], alone, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-3)
        ranks = [answer.rank for answer in alone if answer.rank is not None]
        assert ranks == sorted(ranks, reverse=True)


def test_every_kind_of_file_is_made(case: Case) -> None:
    task = case.task
    for model in (
        case.model,
        optimize_for_decoding(case.model.eval()),
    ):  # the copy is what answers where engine is native
        ((answer, *_),) = task.predict(
            model, [task.parse_input(task.examples[0])], case.module.Options(), case.decoding
        )
        assert "\n" not in answer.text or not answer.files  # a line that people read
        for suffix in answer.files:
            assert suffix.startswith(".") and answer.render(suffix)


def shown(case: Case) -> Inspectable:
    given = case.task.parse_input(case.task.examples[0])
    return case.task.inspect(case.model.eval(), given, case.module.Options(), case.decoding)


def test_axes_fit_the_maps(case: Case) -> None:
    seen = shown(case)
    if not attention_modules(case.model):
        return
    with torch.no_grad(), record(case.model) as maps:
        seen.replay()
    for found in maps.values():
        for places, name, size in ((seen.query_axes, found.queries, 2), (seen.key_axes, found.keys, 3)):
            assert fits(seen, places[name], found.weights.shape, size)


def fits(seen: Inspectable, places: tuple[AxisRef, ...], shape: torch.Size, dimension: int) -> bool:
    """Axes of one name have an item for each place of the map, the shorter ones of a padded batch fewer."""
    lengths = [len(seen.axes[place.axis].items) for place in places]
    rows = [place.batch for place in places if place.batch is not None]
    return max(lengths) == shape[dimension] and all(0 <= row < shape[0] for row in rows)


def test_what_is_shown_belongs_together(case: Case) -> None:
    seen = shown(case)
    with torch.no_grad():
        logits = seen.replay()
    assert logits.dim() == 2 and seen.predicted_ids.shape == logits.shape[:1]
    assert seen.outputs and seen.title and int(seen.predicted_ids.max()) < logits.shape[1]
    if seen.answer_axis:
        assert len(seen.axes[seen.answer_axis].items) == len(seen.predicted_ids)
    for axis in seen.axes.values():
        assert axis.title and axis.items
        assert not axis.input or axis.input in seen.inputs
        assert axis.parent is None or axis.parent.item < len(seen.axes[axis.parent.axis].items)
    for name, without in seen.ablations.items():
        with torch.no_grad():
            assert without().shape == (len(seen.axes[name].items), *logits.shape)
