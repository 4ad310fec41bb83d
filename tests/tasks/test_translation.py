from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from regard.core.errors import ConfigError, DataError
from regard.core.protocols import Hypothesis, Padded
from regard.data.batching import PairBatch
from regard.data.text import Pairs
from regard.decoding import beam, greedy
from regard.models import transformer
from regard.tasks import translation
from regard.tasks.translation import Config

SMALL = Config(pairs=300, vocabulary=400, tokens=512)
WORDS = ["red", "green", "blue", "one", "two", "three"]


@pytest.fixture(scope="module")
def task():
    return translation.build(SMALL)


@pytest.fixture(scope="module")
def copying(tmp_path_factory):
    """Pairs whose target is the source, with one vocabulary: a model that copies translates perfectly."""
    path = tmp_path_factory.mktemp("data") / "copy.tsv"
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(300)]
    path.write_text("".join(f"{text}\t{text}\n" for text in texts), encoding="utf-8")
    return translation.build(
        Config(path=path, source="1", target="2", joint=True, vocabulary=60, tokens=100, longest=60)
    )


class Copier(nn.Module):
    """A model that keeps the source as its state, and notes how many rows it was shown."""

    def __init__(self):
        super().__init__()
        self.readout = nn.Linear(1, 1)
        self.shown = []

    def start(self, source):
        self.shown.append(len(source.lengths))
        return source


def copy(model, state, *, marks, limits):
    rows = [row[: n - 1].tolist() for row, n in zip(state.tokens, state.lengths, strict=True)]
    return [[Hypothesis(tuple(row), -float(len(row)), 0.0), Hypothesis((), -9.0, 0.0)] for row in rows]


def test_batches_are_framed_by_marks(task):
    batch = task.batch(task.plan(0, 1)[0])
    assert isinstance(batch, PairBatch)
    for row, length in zip(batch.source.tokens, batch.source.lengths, strict=True):
        assert row[length - 1] == 3 and (row[length:] == 0).all() and not (row[: length - 1] <= 3).any()
    for row, length in zip(batch.target.tokens, batch.target.lengths, strict=True):
        assert row[0] == 2 and row[length - 1] == 3 and (row[length:] == 0).all()


def test_batches_hold_the_sentences_of_the_split(task):
    pairs = task.split("train")
    examples = task.plan(0, 1)[0]
    batch = task.batch(examples)
    sources = task.vocabularies.source.decode(batch.source.tokens.tolist())
    targets = task.vocabularies.target.decode(batch.target.tokens.tolist())
    assert list(zip(sources, targets, strict=True)) == [pairs[i] for i in examples]


def test_the_plan_is_the_same_for_two_tasks_of_one_config(task):
    first, second = task.plan(2, 7), translation.build(SMALL).plan(2, 7)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_sizes_are_those_of_the_vocabularies(task):
    assert (task.sizes.source, task.sizes.target) == tuple(v.size for v in task.vocabularies)
    assert task.sizes.longest == 256 and not task.sizes.joint


def test_the_loss_is_the_cross_entropy_of_target_and_end(task):
    model = transformer.build(transformer.TINY, task.sizes).eval()
    batch = task.batch(task.plan(0, 1)[0])
    logits, _ = model(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    expected = nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum", label_smoothing=0.1
    )
    loss = task.loss(model, batch)
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == int((labels != 0).sum())


def test_the_loss_falls_on_the_built_in_data(task):
    torch.manual_seed(0)
    model = transformer.build(transformer.TINY, task.sizes)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    seen = []
    for epoch in range(3):
        for examples in task.plan(epoch, 1):
            loss = task.loss(model, task.batch(examples))
            seen.append(loss.total.item() / loss.count)
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    assert sum(seen[-5:]) < 0.9 * sum(seen[:5])


def test_evaluation_runs_free(task):
    short = replace(SMALL, pairs=20)
    small = translation.Translation(short, task.vocabularies)
    small.pairs = {"valid": Pairs("some", lambda: iter(task.split("train")[:12]))}
    model = transformer.build(transformer.TINY, task.sizes)
    scores = small.evaluate(model, "valid", partial(greedy.decode, config=greedy.Config()))
    assert set(scores) == {"bleu", "bleu_lc", "chrf", "loss", "perplexity"}
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"])) and model.training


def test_a_perfect_model_has_full_marks(copying):
    assert copying.better == "bleu"
    model = Copier()
    copying_loss = copying._loss_per_token
    try:
        copying._loss_per_token = lambda model, pairs: 0.0  # the copier has no logits
        scores = copying.evaluate(model, "test", copy)
    finally:
        copying._loss_per_token = copying_loss
    assert scores["chrf"] == pytest.approx(100)


def test_translations_come_in_the_order_of_the_texts(copying):
    texts = [" ".join(WORDS[: 1 + i % 6]) for i in range(2 * translation.SOURCES + 40)]
    model = Copier()
    found = copying.translate(model, texts, decoding=copy)
    assert len(model.shown) > 2 and sum(model.shown) == len(texts)
    assert [candidates[0][0] for candidates in found] == texts
    assert all(len(candidates) == 2 and candidates[1] == ("", -9.0) for candidates in found)


def test_a_small_training_batch_does_not_make_small_batches_of_translations(copying):
    assert copying.config.tokens == 100
    model = Copier()
    copying.translate(model, ["red green blue one two"] * 100, decoding=copy)
    copying.translate(model, [" ".join(["red"] * 58)] * 100, decoding=copy)
    assert model.shown[0] == 100 and max(model.shown[1:]) == translation.PADDED // 59


def test_of_wide_beams_fewer_stand_side_by_side(copying):
    def wide(model, state, *, marks, limits, config):
        return copy(model, state, marks=marks, limits=limits)

    model = Copier()
    for width, most in ((1, translation.SOURCES), (10, translation.ROWS // 10), (10_000, 1)):
        model.shown.clear()
        copying.translate(model, ["red"] * 300, decoding=partial(wide, config=beam.Config(width=width)))
        assert max(model.shown) == most and sum(model.shown) == 300


def test_blank_texts_are_not_shown_to_the_model(copying):
    model = Copier()
    found = copying.translate(model, ["", "red", " \t\u3000"], decoding=copy)
    assert [candidates[0][0] for candidates in found] == ["", "red", ""] and model.shown == [1]


def test_no_texts_have_no_translations(copying):
    assert copying.translate(Copier(), [], decoding=copy) == []


def test_a_text_that_is_too_long_is_an_error(copying):
    text = " ".join(["red"] * 60)
    message = r"'red red .*…' has 61 tokens with the end mark; the model was trained for at most 60: split the text"
    with pytest.raises(DataError, match=message):
        copying.translate(Copier(), [text], decoding=copy)


def test_too_long_a_sentence_in_a_test_set_is_counted(copying):
    long = translation.Translation(copying.config, copying.vocabularies)
    rows = [("red", "red"), (" ".join(["red"] * 60),) * 2]
    long.pairs = {"test": Pairs("some", lambda: iter(rows))}
    long._loss_per_token = lambda model, pairs: 0.0
    assert long.evaluate(Copier(), "test", copy)["too_long"] == 1


def test_encoded_sources_end_with_the_mark(copying):
    source = copying.encode_sources(["red green", "one"])
    assert isinstance(source, Padded) and source.tokens[0, -1] == 3 and source.tokens[1].tolist()[1:] == [3, 0]
    assert copying.decode_tokens(source.tokens[0].tolist()) == "red green"


@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_vocabulary_is_loaded_without_the_data(joint, tmp_path):
    first = translation.build(replace(SMALL, joint=joint))
    first.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == (1 if joint else 2)
    gone = replace(SMALL, joint=joint, path=tmp_path / "gone")
    second = translation.load(gone, tmp_path)
    texts = [source for source, _ in first.split("valid")]
    assert second.encode_sources(texts).tokens.equal(first.encode_sources(texts).tokens)
    assert second.sizes == first.sizes


def test_a_resumed_task_has_the_same_batches(task, tmp_path):
    task.save(tmp_path)
    again = translation.build(SMALL, folder=tmp_path)
    examples = task.plan(0, 1)[0]
    assert again.batch(examples).target.tokens.equal(task.batch(examples).target.tokens)


def test_left_out_pairs_are_told(tmp_path):
    rows = ["a b c d e f g\tx", "a\tb", "\tleer", "c\td"] + [f"w{i}\tv{i}" for i in range(60)]
    (tmp_path / "train.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    for name in ("valid", "test"):
        (tmp_path / f"{name}.tsv").write_text("a\tb\n", encoding="utf-8")
    config = Config(path=tmp_path, source="1", target="2", level="word", longest=5, vocabulary=300)
    task = translation.build(config)
    assert task.notes() == [
        "1 of 64 training pairs are longer than 5 tokens and are left out",
        "1 of 64 training pairs have an empty side and are left out",
    ]
    assert sum(map(len, task.plan(0, 1))) == 62


def test_nothing_to_tell_is_no_note(task):
    assert task.notes() == []


def test_shown_labels_match_the_attention_map(task):
    source, target = task.split("valid")[0]
    shown = task.show((source, target))
    assert len(shown.source) == task.encode_sources([source]).lengths[0] and shown.source[-1] == "<end>"
    assert len(shown.target) == len(task.vocabularies.target.encode([target])[0]) + 1 and shown.target[-1] == "<end>"


def test_signatures_belong_to_the_scores(task):
    assert set(task.signatures()) == {"bleu", "bleu_lc", "chrf"}


def test_lowercased_data_is_judged_by_lowercased_bleu():
    task = translation.build(replace(SMALL, lowercase=True))
    assert task.better == "bleu_lc" and task.vocabularies.source.decode(task.vocabularies.source.encode(["I"])) == ["i"]


def test_an_unknown_split_is_an_error(task):
    with pytest.raises(DataError, match=r"the data has no split 'tset'; did you mean 'test'\?"):
        task.split("tset")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": 0}, "tokens=0 must be at least 1"),
        ({"smoothing": 1.0}, r"smoothing=1\.0 must be at least 0 and below 1"),
        ({"source": "ko"}, "source and target are both 'ko'; name two languages"),
    ],
)
def test_impossible_settings_are_errors(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **change)


def test_a_budget_that_no_sentence_fits_is_an_error():
    with pytest.raises(DataError, match="no sentence pair fits tokens=2; the shortest of 300 needs"):
        translation.build(replace(SMALL, tokens=2)).plan(0, 1)


def test_a_large_corpus_is_gone_through_in_chapters(monkeypatch):
    monkeypatch.setattr(translation, "CHAPTER", 100)
    task = translation.build(SMALL)
    epochs = [np.concatenate(task.plan(epoch, 1)) for epoch in range(6)]
    assert all(len(epoch) == 100 for epoch in epochs)
    for turn in (epochs[:3], epochs[3:]):
        assert sorted(np.concatenate(turn)) == list(range(300))


def test_a_corpus_beyond_the_memory_limit_is_mapped_with_the_same_batches(copying, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    far = translation.build(replace(copying.config, memory=0))
    assert isinstance(far.corpus.source.tokens, np.memmap) and list((tmp_path / "corpora").iterdir())
    for one, other in zip(copying.plan(1, 1), far.plan(1, 1), strict=True):
        assert np.array_equal(one, other)
        assert far.batch(one).source.tokens.equal(copying.batch(one).source.tokens)


@pytest.mark.parametrize(("source", "target"), [("en", "ko"), ("ko", "en")])
def test_the_true_alignment_of_the_built_in_data_is_known(source, target):
    task = translation.build(replace(SMALL, source=source, target=target))
    pairs, links = task.split("test"), task.true_links("test")
    assert len(links) == len(pairs)
    for (left, right), found in zip(pairs, links, strict=True):
        korean = {link[target == "ko"] for link in found}
        assert korean == set(range(len((right if target == "ko" else left).split())))


def test_the_true_alignment_of_other_data_is_not(copying):
    assert copying.true_links("test") is None
