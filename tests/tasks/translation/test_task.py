import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.protocols import Hypothesis, Padded, TargetMetric
from regard.data import batching
from regard.data.batching import PairBatch
from regard.data.text.pair_files import Pairs
from regard.decoding.strategies import beam
from regard.decoding.strategy import DecodingStrategy, build
from regard.models import transformer
from regard.tasks import translation
from regard.tasks.translation import Config, Options, inspect

SMALL = Config(pairs=300, vocab_size=400, max_batch_tokens=512)
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
        Config(path=path, source="1", target="2", joint=True, vocab_size=60, max_batch_tokens=100, max_length=60)
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


class Copying(DecodingStrategy):
    """Gives the source, and as a second best nothing."""

    def __call__(self, model, state, *, marks, limits, **_):
        rows = [row[: n - 1].tolist() for row, n in zip(state.tokens, state.lengths, strict=True)]
        return [[Hypothesis(tuple(row), -float(len(row)), -0.5), Hypothesis((), -9.0, -9.0)] for row in rows]


COPY = Copying("beam", beam.Config(beam_width=1))


def texts_of(answers):
    return [[answer.text for answer in each] for each in answers]


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


def test_evaluation_runs_free(task):
    short = replace(SMALL, pairs=20)
    small = translation.Translation(short, task.vocabularies)
    small.pairs = {"valid": Pairs("some", lambda: iter(task.split("train")[:12]))}
    model = transformer.build(transformer.TINY, task.sizes)
    scores = small.evaluate(model, "valid", build("greedy"))
    assert set(scores) == {"bleu", "bleu_lc", "chrf", "loss", "perplexity"}
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"])) and model.training


def test_a_perfect_model_has_full_marks(copying, monkeypatch):
    assert copying.goal == TargetMetric("bleu", higher_is_better=True)
    model = Copier()
    monkeypatch.setattr(translation, "loss_per_token", lambda *_, **__: 0.0)  # the copier has no logits
    scores = copying.evaluate(model, "test", COPY)
    assert scores["chrf"] == pytest.approx(100)


def test_translations_come_in_the_order_of_the_texts(copying):
    texts = [" ".join(WORDS[: 1 + i % 6]) for i in range(2 * inspect.MAX_BATCH_SOURCES + 40)]
    model = Copier()
    answers = copying.answer(model, texts, Options(), COPY)
    assert len(model.shown) > 2 and sum(model.shown) == len(texts)
    assert texts_of(answers) == [[text, ""] for text in texts]
    assert all((best.rank, other.score, other.rank) == (-0.5, -9.0, -9.0) for best, other in answers)


def test_a_small_training_batch_does_not_make_small_batches_of_translations(copying):
    assert copying.config.tokens == 100
    model = Copier()
    copying.answer(model, ["red green blue one two"] * 100, Options(), COPY)
    copying.answer(model, [" ".join(["red"] * 58)] * 100, Options(), COPY)
    assert model.shown[0] == 100 and max(model.shown[1:]) == inspect.MIN_BATCH_TOKENS // 59


def test_of_wide_beams_fewer_stand_side_by_side(copying):
    model = Copier()
    for width, most in ((1, inspect.MAX_BATCH_SOURCES), (10, inspect.MAX_HYPOTHESES // 10), (10_000, 1)):
        model.shown.clear()
        copying.answer(model, ["red"] * 300, Options(), COPY.with_settings(width=width))
        assert max(model.shown) == most and sum(model.shown) == 300


def test_the_n_best_need_a_beam_that_is_wide_enough(task):
    model = transformer.build(transformer.TINY, task.sizes)
    for decoding in (build("greedy"), build("beam", width=2), build("beam", width=9)):
        (answers,) = task.answer(model, task.examples[:1], Options(n=7), decoding)
        assert len({answer.text for answer in answers}) > 1 and len(answers) == 7
        ranks = [answer.rank for answer in answers]
        assert ranks == sorted(ranks, reverse=True)
    with pytest.raises(ConfigError, match=r"^nbest=0: ask for at least one$"):
        Options(n=0)


def test_blank_texts_are_not_shown_to_the_model(copying):
    model = Copier()
    answers = copying.answer(model, ["", "red", " \t\u3000"], Options(), COPY)
    assert texts_of(answers) == [[""], ["red", ""], [""]] and model.shown == [1]
    assert copying.answer(model, [], Options(), COPY) == []


def test_a_text_that_is_too_long_is_an_error(copying):
    text = " ".join(["red"] * 60)
    message = r"'red red .*…' has 61 tokens with the end mark; the model was trained for at most 60: split the text"
    with pytest.raises(DataError, match=message):
        copying.answer(Copier(), [text], Options(), COPY)


def test_too_long_a_sentence_in_a_test_set_is_counted(copying, monkeypatch):
    long = translation.Translation(copying.config, copying.vocabularies)
    rows = [("red", "red"), (" ".join(["red"] * 60),) * 2]
    long.pairs = {"test": Pairs("some", lambda: iter(rows))}
    monkeypatch.setattr(translation, "loss_per_token", lambda *_, **__: 0.0)
    assert long.evaluate(Copier(), "test", COPY)["too_long"] == 1


def test_encoded_sources_end_with_the_mark(copying):
    source = copying.encode_sources(["red green", "one"])
    assert isinstance(source, Padded) and source.tokens[0, -1] == 3 and source.tokens[1].tolist()[1:] == [3, 0]
    assert copying.limits(source.lengths).tolist() == [16, 14]


@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_vocabulary_is_loaded_without_the_data(joint, tmp_path):
    first = translation.build(replace(SMALL, joint=joint))
    first.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == (3 if joint else 4)
    gone = replace(SMALL, joint=joint, path=tmp_path / "gone")
    second = translation.load(gone, tmp_path)
    texts = [source for source, _ in first.split("valid")]
    assert second.encode_sources(texts).tokens.equal(first.encode_sources(texts).tokens)
    assert second.spec == first.spec and second.examples == first.examples
    assert second.comparison_inputs == first.comparison_inputs and len(first.comparison_inputs) > 3


def test_a_resumed_task_has_the_same_batches(task, tmp_path):
    task.save(tmp_path)
    again = translation.build(SMALL, folder=tmp_path)
    examples = task.plan(0, 1)[0]
    assert again.collate(examples).target.tokens.equal(task.batch(examples).target.tokens)


def test_left_out_pairs_are_told(tmp_path):
    rows = ["a b c d e f g\tx", "a\tb", "\tleer", "c\td"] + [f"w{i}\tv{i}" for i in range(60)]
    (tmp_path / "train.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    for name in ("valid", "test"):
        (tmp_path / f"{name}.tsv").write_text("a\tb\n", encoding="utf-8")
    config = Config(path=tmp_path, source="1", target="2", tokenizer="word", max_length=5, vocab_size=300)
    task = translation.build(config)
    assert task.data_warnings() == [
        "1 of 64 training pairs are longer than 5 tokens and are left out",
        "1 of 64 training pairs have an empty side and are left out",
    ]
    assert sum(map(len, task.epoch_batches(0, 1))) == 62


def test_the_data_is_told_in_a_few_lines(task):
    counts, first = task.overview()
    assert counts == "pairs: train 300, valid 500, test 500; vocabularies of 400 and 400 tokens" and task.notes() == []
    assert first == "first pair, en -> ko: {} -> {}".format(*task.split("train")[0])
    changed = translation.build(replace(SMALL, pairs=301, smoothing=0.0))
    assert set(task.signatures()) == {"bleu", "bleu_lc", "chrf", "aer"}
    before, after = task.fingerprint(), changed.fingerprint()
    assert [name for name in before if before[name] != after[name]] == ["train"]


def test_examples_are_readable_sources_of_the_validation_data(task, tmp_path):
    valid = [source for source, _ in task.split("valid")]
    assert len(task.examples) == 3 and all(text in valid and 4 <= len(text.split()) <= 12 for text in task.examples)
    short = translation.build(replace(SMALL, longest=9, tokens=9))
    assert all(len(row) < 9 for row in short.vocabularies.source.encode(short.examples))
    task.save(tmp_path)
    (tmp_path / "examples.json").unlink()  # a run that is older than they are
    assert translation.load(SMALL, tmp_path).examples == ("The nurse is reading a new book.",)
    (tmp_path / "examples.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"examples\.json: damaged \(.*\); delete it, the run works without$"):
        translation.load(SMALL, tmp_path)


def test_examples_are_kept_as_they_are_written(tmp_path):
    turned = translation.build(replace(SMALL, source="ko", target="en"))
    turned.save(tmp_path)
    text = (tmp_path / "examples.json").read_text(encoding="utf-8")
    assert json.loads(text) == list(turned.examples) and turned.examples[0] in text


def test_lowercased_data_is_judged_by_lowercased_bleu():
    task = translation.build(replace(SMALL, lowercase=True))
    assert task.target_metric.metric == "bleu_lc" and task.vocabularies.source.decode(
        task.vocabularies.source.encode(["I"])
    ) == ["i"]


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
        translation.build(replace(SMALL, tokens=2)).epoch_batches(0, 1)


def test_a_large_corpus_is_gone_through_in_chapters(monkeypatch):
    monkeypatch.setattr(batching, "CHAPTER", 100)
    task = translation.build(SMALL)
    epochs = [np.concatenate(task.epoch_batches(epoch, 1)) for epoch in range(6)]
    assert all(len(epoch) == 100 for epoch in epochs)
    for turn in (epochs[:3], epochs[3:]):
        assert sorted(np.concatenate(turn)) == list(range(300))


def test_a_corpus_beyond_the_memory_limit_is_mapped_with_the_same_batches(copying, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    far = translation.build(replace(copying.config, memory=0))
    assert isinstance(far.corpus.source.tokens, np.memmap) and list((tmp_path / "corpora").iterdir())
    for one, other in zip(copying.plan(1, 1), far.epoch_batches(1, 1), strict=True):
        assert np.array_equal(one, other)
        assert far.collate(one).source.tokens.equal(copying.batch(one).source.tokens)
