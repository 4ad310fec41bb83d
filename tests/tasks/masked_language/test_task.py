from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.text import tokenizer as tokenizers
from regard.inspection import invariants
from regard.models import bert, xlnet
from regard.tasks import language, masked_language
from regard.tasks.masked_language import Config, Options

TEXT = "the cat sat on the mat and the dog sat on the rug . " * 60


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text(TEXT)
    return Config(paths=(str(folder),), tokenizer="word", context=16, batch_size=8)


@pytest.fixture(scope="module")
def task(config):
    return masked_language.build(config)


def build(module, task, **change):
    torch.manual_seed(0)
    small = {"layers": 2, "dim": 32, "heads": 2, "hidden": 64, "dropout": 0.0}
    return module.build(replace(module.TINY, **small, **change), task.sizes)


WHERE = {"segments": 0, "position": "relative"}  # learns in a few steps what learned places take hundreds for
MODELS = [(bert, WHERE), (bert, WHERE | {"share_layers": True, "embedding": 8}), (xlnet, {})]


def train(task, model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _, examples in zip(range(steps), (b for epoch in range(99) for b in task.plan(epoch, 1)), strict=False):
        loss = task.loss(model, task.batch(examples))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    return loss


@pytest.mark.parametrize(("module", "change"), MODELS, ids=["roberta", "albert", "xlnet"])
def test_it_learns_to_fill_gaps(task, module, change):
    model = build(module, task, **change)
    before = task.evaluate(model, "valid", None)
    train(task, model, 240)
    scores = task.evaluate(model, "valid", None)
    assert scores["nats"] < before["nats"] / 2 and scores["accuracy"] > before["accuracy"]
    assert task.evaluate(model, "valid", None) == scores
    text = "sat on the mat and the [MASK] sat on the rug . the cat"
    answers = task.answer(model, [task.read(text)], Options(n=3), None)[0]
    assert text.replace("[MASK]", "dog") in [answer.text for answer in answers] and len(answers) == 3
    assert [verdict for verdict in invariants.check(task, model, None) if not verdict.passed] == []


def test_pairs_are_a_part_of_the_loss(config):
    task = masked_language.build(replace(config, pairs="next"))
    model = build(bert, task)
    loss = train(task, model, 3)
    assert set(loss.parts) == {"gaps", "pairs"}
    torch.testing.assert_close(sum(loss.parts.values()), loss.total.detach())
    assert 0 < float(loss.parts["pairs"]) / loss.count < 2
    assert 0 <= task.evaluate(model, "valid", None)["pairs_accuracy"] <= 1


def test_the_mask_mark_is_behind_the_vocabulary(task, config):
    plain = language.build(language.Config(paths=config.paths, tokenizer="word"))
    assert task.sizes.marks.mask == task.sizes.size - 1 == plain.spec.size


def test_it_is_saved_and_loaded_without_the_text(task, config, tmp_path):
    task.save(tmp_path)
    again = masked_language.build(replace(config, paths=("nowhere",)), tmp_path)
    assert again.spec == task.sizes and again.examples == task.examples
    assert again.examples and all("[MASK]" in text for text in again.examples)
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        again.epoch_batches(0, 1)


def test_the_vocabulary_of_another_task_gets_a_mask_mark(config, tmp_path):
    tokenizer = tokenizers.train([TEXT], level="word", size=30)
    tokenizer.save(tmp_path / "tokenizer.json")
    task = masked_language.load(config, tmp_path)
    assert task.spec.size == tokenizer.vocab_size + 1 and task.examples == ()


def test_a_text_that_cannot_be_filled_is_one_clear_line(task):
    with pytest.raises(DataError, match=r"no \[MASK\] in 'the cat sat'"):
        task.read("the cat sat")
    words = "the text has 43 tokens with its marks, but the model sees at most 16; shorten it"
    with pytest.raises(DataError, match=words):
        task.read("the [MASK] " * 20)


def test_a_split_shorter_than_a_row_is_refused(config, task, tmp_path):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "valid.txt").write_text("the cat")
    short = masked_language.MaskedLanguage(replace(config, paths=(str(tmp_path),)), task.tokenizer)
    with pytest.raises(DataError, match=r"the split 'valid' is shorter than data.context=16; give more text"):
        short.evaluate(build(bert, task, segments=0), "valid", None)


def test_gaps_change_from_epoch_to_epoch(task):
    first, second = (task.batch(np.sort(np.concatenate(task.plan(epoch, 1)))[:4]).gaps for epoch in (0, 1))
    assert not torch.equal(first.chosen, second.chosen)


def test_signatures_and_overview_say_what_is_counted(task, config):
    assert "15% of the tokens of texts of 16 tokens" in task.signatures()["nats"]
    whole = masked_language.MaskedLanguage(replace(config, whole_words=True), task.tokenizer)
    assert "of the words" in whole.signatures()["nats"]
    counts = task.overview()[0]
    assert counts.startswith("tokens: train 841, ") and "; 3,120 characters of training text; a vocabulary" in counts


@pytest.mark.parametrize(
    ("change", "words"),
    [({name: 0}, f"{name}=0 must be at least 1") for name in ("vocabulary", "minimum", "rows", "evaluated")]
    + [({"context": 7}, "context=7 must be at least 8 tokens"), ({"share": 1.0}, "share=1.0 must lie between 0 and 1")],
)
def test_wrong_settings_are_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        Config(**change)


def test_at_least_one_way_is_asked_for():
    with pytest.raises(ConfigError, match="top=0: ask for at least one"):
        Options(n=0)
