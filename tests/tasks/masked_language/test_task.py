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


def build(module, task, **changes):
    torch.manual_seed(0)
    small = {"layers": 2, "dim": 32, "heads": 2, "ffn_dim": 64, "dropout": 0.0}
    return module.build(replace(module.TINY, **small, **changes), task.spec)


RELATIVE = {"segments": 0, "position": "relative"}  # learns in a few steps; learned positions take hundreds
MODELS = [(bert, RELATIVE), (bert, RELATIVE | {"share_layers": True, "embedding": 8}), (xlnet, {})]


def train(task, model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _, examples in zip(
        range(steps), (b for epoch in range(99) for b in task.epoch_batches(epoch, 1)), strict=False
    ):
        loss = task.loss(model, task.collate(examples))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    return loss


@pytest.mark.parametrize(("module", "changes"), MODELS, ids=["roberta", "albert", "xlnet"])
def test_it_learns_to_fill_masks(task, module, changes):
    model = build(module, task, **changes)
    before = task.evaluate(model, "valid", None)
    train(task, model, 240)
    scores = task.evaluate(model, "valid", None)
    assert scores["nats"] < before["nats"] / 2 and scores["accuracy"] > before["accuracy"]
    assert task.evaluate(model, "valid", None) == scores
    text = "sat on the mat and the [MASK] sat on the rug . the cat"
    predictions = task.predict(model, [task.parse_input(text)], Options(n=3), None)[0]
    assert text.replace("[MASK]", "dog") in [item.text for item in predictions] and len(predictions) == 3
    assert [result for result in invariants.check(task, model, None) if not result.passed] == []


def test_pairs_are_a_part_of_the_loss(config):
    task = masked_language.build(replace(config, sentence_pairs="next"))
    model = build(bert, task)
    loss = train(task, model, 3)
    assert set(loss.parts) == {"gaps", "pairs"}
    torch.testing.assert_close(sum(loss.parts.values()), loss.total.detach())
    assert 0 < float(loss.parts["pairs"]) / loss.count < 2
    assert 0 <= task.evaluate(model, "valid", None)["pairs_accuracy"] <= 1


def test_the_mask_token_is_the_last_of_the_vocabulary(task, config):
    plain = language.build(language.Config(paths=config.paths, tokenizer="word"))
    assert task.spec.special_tokens.mask == task.spec.vocab_size - 1 == plain.spec.vocab_size


def test_it_is_saved_and_loaded_without_the_text(task, config, tmp_path):
    task.save(tmp_path)
    loaded = masked_language.build(replace(config, paths=("nowhere",)), tmp_path)
    assert loaded.spec == task.spec and loaded.examples == task.examples
    assert loaded.examples and all("[MASK]" in text for text in loaded.examples)
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        loaded.epoch_batches(0, 1)


def test_the_vocabulary_of_another_task_gets_a_mask_token(config, tmp_path):
    tokenizer = tokenizers.train([TEXT], level="word", size=30)
    tokenizer.save(tmp_path / "tokenizer.json")
    task = masked_language.load(config, tmp_path)
    assert task.spec.vocab_size == tokenizer.vocab_size + 1 and task.examples == ()


def test_invalid_texts_are_refused(task):
    message = "the text has 43 tokens, special tokens included; the model's context is 16; shorten the text"
    with pytest.raises(DataError, match=message):
        task.parse_input("the [MASK] " * 20)


def test_a_split_shorter_than_a_row_is_refused(config, task, tmp_path):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "valid.txt").write_text("the cat")
    short = masked_language.MaskedLanguage(replace(config, paths=(str(tmp_path),)), task.tokenizer)
    with pytest.raises(DataError, match=r"the split 'valid' is shorter than data.context=16; give more text"):
        short.evaluate(build(bert, task, segments=0), "valid", None)


def test_masks_change_from_epoch_to_epoch(task):
    examples = [np.sort(np.concatenate(task.epoch_batches(epoch, 1)))[:4] for epoch in (0, 1)]
    first, second = (task.collate(epoch_examples).masked for epoch_examples in examples)
    assert not torch.equal(first.prediction_mask, second.prediction_mask)


def test_signatures_and_data_summary_name_the_units(task, config):
    assert "15% of the tokens of texts of 16 tokens" in task.signatures()["nats"]
    whole_words = masked_language.MaskedLanguage(replace(config, whole_words=True), task.tokenizer)
    assert "of the words" in whole_words.signatures()["nats"]
    counts = task.data_summary()[0]
    assert counts.startswith("tokens: train 841, ") and "; 3,120 characters of training text; a vocabulary" in counts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({name: 0}, f"{name}=0 must be at least 1")
        for name in ("vocab_size", "min_frequency", "batch_size", "eval_tokens")
    ]
    + [
        ({"context": 7}, "context=7 must be at least 8 tokens"),
        ({"mask_prob": 1.0}, "mask_prob=1.0 must be between 0 and 1"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_at_least_one_filling_is_requested():
    with pytest.raises(ConfigError, match="n=0 must be at least 1"):
        Options(n=0)


@pytest.mark.parametrize("module", [bert, xlnet])
def test_vectors_are_means_of_features_and_do_not_depend_on_other_texts(task, module):
    model = build(module, task).eval()
    texts = [task.parse_input(text) for text in ("the cat sat", "the dog")]
    (first,), _ = task.predict(model, texts, Options(embed=True), None)
    ((alone,),) = task.predict(model, texts[:1], Options(embed=True), None)
    assert first.data == alone.data and len(first.data["vector"]) == 32
    with pytest.raises(DataError, match="there is no text to read; give some text"):
        task.predict(model, [task.parse_input("")], Options(embed=True), None)


def test_a_text_without_a_mask_cannot_be_filled(task):
    with pytest.raises(DataError, match=r"no \[MASK\] in 'the cat sat'; write \[MASK\] for each word to predict"):
        task.predict(build(bert, task), [task.parse_input("the cat sat")], Options(), None)
