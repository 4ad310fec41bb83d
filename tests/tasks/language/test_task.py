import math

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.text.plain_text import PlainTextSource
from regard.decoding import strategy
from regard.inspection import invariants
from regard.models import gpt
from regard.tasks import language
from regard.tasks.language import Config, Options

TEXT = "the cat sat on the mat and the dog sat on the cat\n" * 30
SAMPLE = strategy.build("sample", temperature=0.8)


class IndexedStrategy(strategy.DecodingStrategy):
    """Sample indices of three requests with two, one and one input."""

    def sample_indices(self, count):
        assert count == 4
        return [0, 1, 0, 0]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text(TEXT)
    return language.build(Config(paths=(str(folder),), tokenizer="char", context=16, batch_size=4))


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return gpt.build(gpt.Config(layers=2, dim=32, heads=2), task.spec)


def train(task, model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _, examples in zip(
        range(steps), (b for epoch in range(99) for b in task.epoch_batches(epoch, 1)), strict=False
    ):
        loss = task.loss(model, task.collate(examples))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()


def test_a_batch_has_crops_after_bos(task):
    batch = task.collate(np.array([0, 5]))
    assert batch.inputs.shape == batch.targets.shape == (2, 16)
    assert (batch.inputs[:, 0] == task.special_tokens.bos).all()
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert task.tokenizer.decode(batch.targets[1:].tolist()) == [TEXT[5:21]]


def test_the_loss_is_the_mean_over_the_crops(task, model):
    loss = task.loss(model, task.collate(np.array([0, 5])))
    assert loss.count == 32
    first, second = (task.loss(model, task.collate(np.array([start]))).total for start in (0, 5))
    torch.testing.assert_close(loss.total, first + second)


def test_it_learns_and_bits_follow_from_nats(task, model):
    before = task.evaluate(model, "valid", None)
    train(task, model, 120)
    scores = task.evaluate(model, "valid", None)
    assert scores["nats"] < before["nats"] / 2
    assert scores["bits_per_character"] == pytest.approx(scores["nats"] / math.log(2))
    assert scores["perplexity"] == pytest.approx(math.exp(scores["nats"]))
    assert "sliding window: windows of 16 tokens" in task.signatures()["nats"]


def test_at_most_eval_tokens_are_scored(task, model):
    short = language.Language(Config(**{**vars(task.config), "eval_tokens": 20}), task.tokenizer)
    assert short.evaluate(model, "valid", None)["nats"] > 0


def test_texts_are_continued_and_ranked_by_their_score(task, model):
    with_prompt, without_prompt = task.predict(model, ["the cat", ""], Options(tokens=40, n=3), SAMPLE)
    assert len(with_prompt) == len(without_prompt) == 3
    assert all(answer.text.startswith("the cat") and len(answer.text) <= 47 for answer in with_prompt)
    assert [answer.score for answer in with_prompt] == sorted((answer.score for answer in with_prompt), reverse=True)


def test_the_same_seed_gives_the_same_text_and_another_another(task, model):
    texts = [task.predict(model, ["the"], Options(tokens=30, seed=seed), SAMPLE)[0][0].text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_sampling_requests_get_the_same_texts_in_one_batch(task, model):
    requests, options = [["the cat", "the"], ["the dog"], ["the"]], Options(tokens=20, seed=3, n=2)
    alone = [
        answer.text for inputs in requests for row in task.predict(model, inputs, options, SAMPLE) for answer in row
    ]
    flat = [text for inputs in requests for text in inputs]
    together = IndexedStrategy(SAMPLE.name, SAMPLE.config)
    batched = [answer.text for row in task.predict(model, flat, options, together) for answer in row]
    assert task.samples_by_index and batched == alone
    assert [answer.text for row in task.predict(model, flat, options, SAMPLE) for answer in row] != alone


def test_a_prompt_may_be_an_option_but_not_twice(task, model):
    ((answer,),) = task.predict(model, [""], Options(tokens=5, prompt="the dog"), SAMPLE)
    assert answer.text.startswith("the dog")
    with pytest.raises(
        ConfigError, match="prompt: the text to continue is given twice; give it as input or as prompt="
    ):
        task.predict(model, ["the"], Options(prompt="the dog"), SAMPLE)


def test_the_prompt_is_returned_unchanged(task, model):
    ((answer,),) = task.predict(model, ["THE cat 🎬"], Options(tokens=4, n=1), SAMPLE)
    assert answer.text.startswith("THE cat 🎬")
    assert answer.data["unknown_tokens"] == ["THE", "🎬"]
    assert answer.remarks == ("not in the vocabulary, or spelled out in characters: THE, 🎬",)


def test_a_strategy_without_the_settings_is_replaced_by_sampling(task, model):
    greedy = strategy.build("greedy")
    assert Options().resolve_strategy(greedy) == greedy
    assert Options(temperature=0.5).resolve_strategy(greedy) == strategy.build("sample", temperature=0.5)


def test_the_end_of_a_text_longer_than_the_context_is_inspected(task, model):
    inspectable = task.inspect(model, TEXT[:100], Options(), SAMPLE)
    assert len(inspectable.predicted_ids) <= 16
    assert inspectable.title and TEXT[:100].endswith(inspectable.title)
    assert inspectable.outputs[0].text.startswith(inspectable.title)


@pytest.mark.parametrize(("length", "kept"), [(3, 3), (12, 12), (14, 14), (15, 14), (100, 14)])
def test_all_text_that_the_context_holds_is_inspected(task, model, length, kept):
    """A context of 16 tokens has room for BOS, 14 tokens and one new token."""
    inspectable = task.inspect(model, TEXT[:length], Options(), SAMPLE)
    assert inspectable.title == TEXT[length - kept : length]
    expected = f"the context has 16 tokens: only the last {kept} of the {length} input tokens are used"
    assert inspectable.remarks == (() if kept == length else (expected,))


def test_a_prompt_that_is_cut_is_reported(task, model):
    (short,), (long,) = (task.predict(model, [TEXT[:n]], Options(tokens=3), SAMPLE)[0] for n in (8, 40))
    assert short.remarks == ()
    assert long.remarks == ("the context has 16 tokens: only the last 7 of the 40 input tokens are used",)


def test_the_inspection_satisfies_the_invariants(task, model):
    assert [result for result in invariants.check(task, model, SAMPLE) if not result.passed] == []


def test_it_is_saved_and_loaded_without_the_text(task, model, tmp_path):
    task.save(tmp_path)
    config = Config(**{**vars(task.config), "paths": ("nowhere",)})
    loaded = language.build(config, tmp_path)
    assert loaded.examples == task.examples and loaded.spec == task.spec
    texts = [item.predict(model, ["the"], Options(tokens=9), SAMPLE)[0][0].text for item in (task, loaded)]
    assert texts[0] == texts[1]
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        loaded.epoch_batches(0, 1)


def test_a_text_shorter_than_the_context_is_refused(task, tmp_path):
    (tmp_path / "x.txt").write_text("too short")
    config = Config(paths=(str(tmp_path / "x.txt"),), tokenizer="char", context=64)
    with pytest.raises(DataError, match=r"the training text has 8 tokens, fewer than data.context=64"):
        language.build(config).epoch_batches(0, 1)


def test_the_data_summary_counts_the_text(task):
    counts = task.data_summary()[0]
    assert counts.startswith("tokens: train 1,500, ") and "; 1,500 characters of training text; a vocabulary" in counts


@pytest.mark.parametrize("name", ["vocab_size", "min_frequency", "batch_size", "eval_tokens"])
def test_settings_below_one_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name}=0 must be at least 1"):
        Config(**{name: 0})


def test_invalid_settings_are_refused():
    with pytest.raises(ConfigError, match="context=3 must be at least 4 tokens"):
        Config(context=3)
    with pytest.raises(ConfigError, match="tokens=0 must be at least 1"):
        Options(tokens=0)


def test_the_default_is_the_documentation_inside_python():
    assert Config().data_source == PlainTextSource((), "python")


def test_a_changed_text_has_another_fingerprint(task, tmp_path):
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text(TEXT)
    config = Config(paths=(str(tmp_path),), tokenizer="char", context=16)
    same = language.Language(config, task.tokenizer).fingerprint()
    assert same["train"] == task.fingerprint()["train"]
    (tmp_path / "train.txt").write_text(TEXT + "!")
    changed = language.Language(config, task.tokenizer).fingerprint()
    assert changed["train"] != same["train"] and changed["valid"] == same["valid"]


def test_token_texts_are_those_of_the_vocabulary(task):
    assert (
        task.token_texts()[:4] == [""] * 4
        and "t" in task.token_texts()
        and len(task.token_texts()) == task.spec.vocab_size
    )


def test_temperature_zero_is_greedy(task, model, tmp_path):
    predictions = task.predict(model, ["the "], Options(tokens=20, temperature=0), SAMPLE)
    greedy = task.predict(model, ["the "], Options(tokens=20), strategy.build("greedy"))
    assert predictions[0][0].text == greedy[0][0].text
    with pytest.raises(ConfigError, match="n=3: all texts are identical at temperature=0; use n=1"):
        Options(temperature=0, n=3)
    assert predictions[0][0].save(tmp_path / "x.txt").read_text() == predictions[0][0].text + "\n"


def test_partial_texts_are_prefixes_of_the_answer(task, model):
    (answer,) = task.predict(model, ["the €"], Options(tokens=8), strategy.build("greedy"))[0]
    partial_texts = [task.partial_text("the €", Options(), answer.value[:length]) for length in range(9)]
    assert partial_texts[0] == "the €" and partial_texts[-1] == answer.text
    assert all(answer.text.startswith(text) for text in partial_texts)
