"""The translation task: batches, loss, batched search, stored vocabularies, settings and errors."""

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
from regard.data.text import tokenizer as tokenizers
from regard.data.text.pair_files import Pairs
from regard.data.text.tokenizer import TokenizerPair
from regard.decoding.strategies import beam
from regard.decoding.strategy import DecodingStrategy
from regard.decoding.strategy import build as build_strategy
from regard.models import bahdanau, seq2seq, transformer
from regard.tasks import translation
from regard.tasks._shared import batch_search
from regard.tasks.translation import Config, Options
from regard.tasks.translation import task as task_module

SMALL = Config(pairs=300, vocab_size=400, max_batch_tokens=512)
WORDS = ["red", "green", "blue", "one", "two", "three"]


@pytest.fixture(scope="module")
def task():
    return translation.build(SMALL)


@pytest.fixture(scope="module")
def copy_task(tmp_path_factory):
    """Pairs whose target is the source, with one vocabulary: a model that copies translates perfectly."""
    path = tmp_path_factory.mktemp("data") / "copy.tsv"
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(300)]
    path.write_text("".join(f"{text}\t{text}\n" for text in texts), encoding="utf-8")
    return translation.build(
        Config(path=path, source="1", target="2", joint=True, vocab_size=60, max_batch_tokens=100, max_length=60)
    )


class CopyModel(nn.Module):
    """A model whose state is the source; it records the size of each batch."""

    def __init__(self):
        super().__init__()
        self.readout = nn.Linear(1, 1)
        self.batch_sizes = []

    def start(self, source):
        self.batch_sizes.append(len(source.lengths))
        return source


class CopyStrategy(DecodingStrategy):
    """Returns the source, and an empty hypothesis as the second best."""

    def __call__(self, model, state, *, special_tokens, limits, **_):
        rows = [row[: n - 1].tolist() for row, n in zip(state.tokens, state.lengths, strict=True)]
        return [[Hypothesis(tuple(row), -float(len(row)), -0.5), Hypothesis((), -9.0, -9.0)] for row in rows]


COPY = CopyStrategy("beam", beam.Config(beam_width=1))


def texts_of(predictions):
    return [[prediction.text for prediction in n_best] for n_best in predictions]


def test_rows_are_framed_by_special_tokens(task):
    batch = task.collate(task.epoch_batches(0, 1)[0])
    assert isinstance(batch, PairBatch)
    for row, length in zip(batch.source.tokens, batch.source.lengths, strict=True):
        assert row[length - 1] == 3 and (row[length:] == 0).all() and not (row[: length - 1] <= 3).any()
    for row, length in zip(batch.target.tokens, batch.target.lengths, strict=True):
        assert row[0] == 2 and row[length - 1] == 3 and (row[length:] == 0).all()


def test_batches_hold_the_sentences_of_the_split(task):
    pairs = task.split("train")
    examples = task.epoch_batches(0, 1)[0]
    batch = task.collate(examples)
    sources = task.vocabularies.source.decode(batch.source.tokens.tolist())
    targets = task.vocabularies.target.decode(batch.target.tokens.tolist())
    assert list(zip(sources, targets, strict=True)) == [pairs[i] for i in examples]


def test_the_spec_has_the_sizes_of_the_vocabularies(task):
    sizes = task.spec.source_vocab_size, task.spec.target_vocab_size
    assert sizes == tuple(vocabulary.vocab_size for vocabulary in task.vocabularies)
    assert task.spec.max_length == 256 and not task.spec.joint_vocab


def test_the_loss_is_the_cross_entropy_of_target_and_end(task):
    model = transformer.build(transformer.TINY, task.spec).eval()
    batch = task.collate(task.epoch_batches(0, 1)[0])
    logits, _ = model(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    expected = nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum", label_smoothing=0.1
    )
    loss = task.loss(model, batch)
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == int((labels != 0).sum())


def test_evaluation_is_free_running(task):
    small = translation.Translation(replace(SMALL, pairs=20), task.vocabularies)
    small.pairs = {"valid": Pairs("memory", lambda: iter(task.split("train")[:12]))}
    model = transformer.build(transformer.TINY, task.spec)
    scores = small.evaluate(model, "valid", build_strategy("greedy"))
    assert set(scores) == {"bleu", "bleu_lc", "chrf", "loss", "perplexity"}
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"])) and model.training


def test_a_perfect_model_has_full_scores(copy_task, monkeypatch):
    assert copy_task.target_metric == TargetMetric("bleu", higher_is_better=True)
    monkeypatch.setattr(task_module, "loss_per_token", lambda *_, **__: 0.0)  # the model has no logits
    assert copy_task.evaluate(CopyModel(), "test", COPY)["chrf"] == pytest.approx(100)


def test_translations_are_in_the_order_of_the_texts(copy_task):
    texts = [" ".join(WORDS[: 1 + i % 6]) for i in range(2 * task_module.MAX_BATCH_SOURCES + 40)]
    model = CopyModel()
    predictions = copy_task.predict(model, texts, Options(), COPY)
    assert len(model.batch_sizes) > 2 and sum(model.batch_sizes) == len(texts)
    assert texts_of(predictions) == [[text, ""] for text in texts]
    assert all(
        (best.ranking_score, second.score, second.ranking_score) == (-0.5, -9.0, -9.0) for best, second in predictions
    )


def test_small_training_batches_do_not_make_search_batches_small(copy_task):
    assert copy_task.config.max_batch_tokens == 100
    model = CopyModel()
    copy_task.predict(model, ["red green blue one two"] * 100, Options(), COPY)
    copy_task.predict(model, [" ".join(["red"] * 58)] * 100, Options(), COPY)
    assert model.batch_sizes[0] == 100 and max(model.batch_sizes[1:]) == task_module.MIN_BATCH_TOKENS // 59


def test_search_batches_of_wide_beams_are_smaller(copy_task):
    model = CopyModel()
    for width, size in ((1, task_module.MAX_BATCH_SOURCES), (10, batch_search.MAX_HYPOTHESES // 10), (10_000, 1)):
        model.batch_sizes.clear()
        copy_task.predict(model, ["red"] * 300, Options(), COPY.with_settings(beam_width=width))
        assert max(model.batch_sizes) == size and sum(model.batch_sizes) == 300


def test_the_beam_is_widened_to_the_n_best(task):
    model = transformer.build(transformer.TINY, task.spec)
    for decoding in (
        build_strategy("greedy"),
        build_strategy("beam", beam_width=2),
        build_strategy("beam", beam_width=9),
    ):
        (predictions,) = task.predict(model, task.examples[:1], Options(n=7), decoding)
        assert len({prediction.text for prediction in predictions}) > 1 and len(predictions) == 7
        is_widened = decoding.width < 7  # then the first is the one that is found without asking for more
        ranks = [prediction.ranking_score for prediction in predictions[is_widened:]]
        assert ranks == sorted(ranks, reverse=True)
    with pytest.raises(ConfigError, match=r"^n=0 must be at least 1$"):
        Options(n=0)


@pytest.mark.parametrize("decoding", [build_strategy("greedy"), build_strategy("beam", beam_width=2)])
def test_the_first_translation_does_not_depend_on_n(decoding):
    """A wider beam may find better hypotheses; the first stays the same, and no text comes twice."""
    task = translation.build(replace(translation.TINY, pairs=40))
    torch.manual_seed(0)
    model = bahdanau.build(bahdanau.TINY, task.spec).eval()
    texts = ["The nurse is reading.", "The cook reads a book."]
    for count in (2, 7):
        n_best = task.predict(model, texts, Options(n=count), decoding)
        for first, predictions in zip(task.predict(model, texts, Options(), decoding), n_best, strict=True):
            assert predictions[0].text == first[0].text and len(predictions) <= count
            ranks = [prediction.ranking_score for prediction in predictions[1:]]
            assert ranks == sorted(ranks, reverse=True)


def test_blank_texts_are_not_decoded(copy_task):
    model = CopyModel()
    predictions = copy_task.predict(model, ["", "red", " \t\u3000"], Options(), COPY)
    assert texts_of(predictions) == [[""], ["red", ""], [""]] and model.batch_sizes == [1]
    assert copy_task.predict(model, [], Options(), COPY) == []


def test_a_sentence_of_a_test_set_that_is_too_long_is_counted(copy_task, monkeypatch):
    task = translation.Translation(copy_task.config, copy_task.vocabularies)
    rows = [("red", "red"), (" ".join(["red"] * 60),) * 2]
    task.pairs = {"test": Pairs("memory", lambda: iter(rows))}
    monkeypatch.setattr(task_module, "loss_per_token", lambda *_, **__: 0.0)
    assert task.evaluate(CopyModel(), "test", COPY)["too_long"] == 1


def test_encoded_sources_end_with_eos(copy_task):
    source = copy_task.encode_sources(["red green", "one"])
    assert isinstance(source, Padded) and source.tokens[0, -1] == 3 and source.tokens[1].tolist()[1:] == [3, 0]
    assert copy_task.max_output_lengths(source.lengths).tolist() == [16, 14]


def test_examples_fit_the_model_and_readable_ones_come_first():
    tokenizer = tokenizers.train(["one two three four five"], level="word", size=20)
    pairs = [("one", "x"), ("", "x"), ("one two three four", "x"), ("one two three four five one two", "x")]
    assert task_module.example_sources(pairs, tokenizer, max_length=6) == ["one two three four", "one"]


def test_validation_data_of_which_no_pair_fits_is_refused():
    tokenizer = tokenizers.train(["one two three four five"], level="word", size=20)
    vocabularies = TokenizerPair(tokenizer, tokenizer)
    task_module.check_length_limit([("one two three four", "one"), ("one", "two")], vocabularies, max_length=3)
    with pytest.raises(DataError, match=r"^no pair of the validation data has fewer than 2 tokens on each side; raise"):
        task_module.check_length_limit([("one two three", "one"), ("one", " ")], vocabularies, max_length=2)


@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_vocabulary_is_loaded_without_the_data(joint, tmp_path):
    saved = translation.build(replace(SMALL, joint=joint))
    saved.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == (3 if joint else 4)
    loaded = translation.load(replace(SMALL, joint=joint, path=tmp_path / "missing"), tmp_path)
    texts = [source for source, _ in saved.split("valid")]
    assert loaded.encode_sources(texts).tokens.equal(saved.encode_sources(texts).tokens)
    assert loaded.spec == saved.spec and loaded.examples == saved.examples
    assert loaded.comparison_inputs == saved.comparison_inputs and len(saved.comparison_inputs) > 3


def test_a_resumed_task_has_the_same_batches(task, tmp_path):
    task.save(tmp_path)
    resumed = translation.build(SMALL, folder=tmp_path)
    examples = task.epoch_batches(0, 1)[0]
    assert resumed.collate(examples).target.tokens.equal(task.collate(examples).target.tokens)


def test_left_out_pairs_are_reported(tmp_path):
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


def test_pairs_with_an_empty_side_are_neither_shown_nor_evaluated(tmp_path):
    train = [("", "x"), *((f"sentence number {i}", f"문장 {i}") for i in range(40))]
    for name, rows in {"train": train, "valid": [("a b", "가"), ("", "나"), ("c", " ")]}.items():
        (tmp_path / f"{name}.tsv").write_text("en\tko\n" + "".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    task = translation.build(translation.Config(path=tmp_path, vocab_size=300))
    assert task.split("valid") == [("a b", "가")]
    assert "2 pairs of valid with an empty side are not evaluated" in task.data_warnings()
    counts, first = task.data_summary()[:2]
    assert counts.startswith("pairs: train 41, valid 1; ") and first.endswith("sentence number 0 -> 문장 0")


def test_the_data_summary_has_counts_and_the_first_pair(task):
    counts, first = task.data_summary()
    assert counts == "pairs: train 300, valid 500, test 500; vocabularies of 400 and 400 tokens"
    assert first == "first pair, en -> ko: {} -> {}".format(*task.split("train")[0]) and task.data_warnings() == []
    assert set(task.signatures()) == {"bleu", "bleu_lc", "chrf", "aer"}


def test_only_the_fingerprint_of_a_changed_split_changes(task):
    changed = translation.build(replace(SMALL, pairs=301, smoothing=0.0))
    before, after = task.fingerprint(), changed.fingerprint()
    assert [name for name in before if before[name] != after[name]] == ["train"]


def test_examples_are_readable_sources_of_the_validation_data(task, tmp_path):
    valid = [source for source, _ in task.split("valid")]
    assert len(task.examples) == 3 and all(text in valid and 4 <= len(text.split()) <= 12 for text in task.examples)
    short = translation.build(replace(SMALL, max_length=9, max_batch_tokens=9))
    assert all(len(row) < 9 for row in short.vocabularies.source.encode(short.examples))
    task.save(tmp_path)
    (tmp_path / "examples.json").unlink()  # a run of a version without examples
    assert translation.load(SMALL, tmp_path).examples == ("The nurse is reading a new book.",)
    (tmp_path / "examples.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"examples\.json: damaged \(.*\); delete it, the run works without it$"):
        translation.load(SMALL, tmp_path)


def test_examples_are_stored_unescaped(tmp_path):
    reversed_task = translation.build(replace(SMALL, source="ko", target="en"))
    reversed_task.save(tmp_path)
    text = (tmp_path / "examples.json").read_text(encoding="utf-8")
    assert json.loads(text) == list(reversed_task.examples) and reversed_task.examples[0] in text


def test_the_target_metric_of_lowercased_data_is_lowercased_bleu():
    task = translation.build(replace(SMALL, lowercase=True))
    source = task.vocabularies.source
    assert task.target_metric.metric == "bleu_lc" and source.decode(source.encode(["I"])) == ["i"]


def test_an_unknown_split_is_an_error(task):
    with pytest.raises(DataError, match=r"the data has no split 'tset'; did you mean 'test'\?"):
        task.split("tset")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_batch_tokens": 0}, "max_batch_tokens=0 must be at least 1"),
        ({"smoothing": 1.0}, r"smoothing=1\.0 must be at least 0 and below 1"),
        ({"source": "ko"}, "source and target are both 'ko'; name two languages"),
    ],
)
def test_impossible_settings_are_errors(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **change)


def test_a_token_budget_that_no_sentence_fits_is_an_error():
    with pytest.raises(DataError, match=r"no sentence pair fits .*=2; the shortest of 300 needs"):
        translation.build(replace(SMALL, max_batch_tokens=2)).epoch_batches(0, 1)


def test_an_epoch_of_a_large_corpus_is_one_shard(monkeypatch):
    monkeypatch.setattr(batching, "SHARD_PAIRS", 100)
    task = translation.build(SMALL)
    epochs = [np.concatenate(task.epoch_batches(epoch, 1)) for epoch in range(6)]
    assert all(len(epoch) == 100 for epoch in epochs)
    for turn in (epochs[:3], epochs[3:]):
        assert sorted(np.concatenate(turn)) == list(range(300))


def test_a_corpus_beyond_the_memory_limit_is_mapped_with_the_same_batches(copy_task, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    mapped = translation.build(replace(copy_task.config, max_memory_mb=0))
    assert isinstance(mapped.corpus.source.tokens, np.memmap) and list((tmp_path / "corpora").iterdir())
    for in_memory_batch, mapped_batch in zip(copy_task.epoch_batches(1, 1), mapped.epoch_batches(1, 1), strict=True):
        assert np.array_equal(in_memory_batch, mapped_batch)
        expected = copy_task.collate(in_memory_batch).source.tokens
        assert mapped.collate(in_memory_batch).source.tokens.equal(expected)


def test_the_targets_of_similar_pairs_follow_the_source(tmp_path):
    config = replace(SMALL, joint=True, similar_pairs=2, max_length=60)
    task = translation.build(config)
    task.save(tmp_path)
    eos, loaded = task.special_tokens.eos, translation.load(config, tmp_path)
    train = list(task.pairs["train"])
    source = task.corpus.source.row(0).tolist()
    own = task.vocabularies.source.encode([train[0][0]])[0]
    assert source[: len(own) + 1] == [*own, eos]
    assert source.count(eos) == 2
    assert not any(text == train[0][1] for text in task.vocabularies.target.decode([source[len(own) + 1 :]]))
    for each in (task, loaded):  # at inference the training text itself is in the memory
        row = each.encode_sources([train[0][0]]).tokens[0].tolist()
        assert (
            row[len(own) + 1 :][: len(task.vocabularies.target.encode([train[0][1]])[0])]
            == (task.vocabularies.target.encode([train[0][1]])[0])
        )
        assert row[-1] == eos and len(row) <= config.max_length


def test_a_memory_needs_one_vocabulary():
    with pytest.raises(ConfigError, match=r"similar_pairs=1 appends target texts to the sources; set data\.joint=true"):
        Config(similar_pairs=1)


@pytest.fixture(scope="module")
def with_memory(tmp_path_factory):
    """A task with a memory and placeholders, the same task loaded from its folder, and a model."""
    folder = tmp_path_factory.mktemp("run")
    path = folder / "pairs.tsv"
    names = [f"name_{i}" for i in range(40)]
    rows = [(f"call {name} with a red book", f"빨간 책으로 {name}를 부릅니다") for name in names]
    rows += [
        (f"the nurse reads book {i} of {name}", f"간호사가 {name}의 {i} 책을 읽습니다") for i, name in enumerate(names)
    ]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    config = Config(
        path=path, source="1", target="2", vocab_size=100, placeholders=True, memory_weight=0.5, memory_pairs=4
    )
    task = translation.build(config)
    task.save(folder)
    torch.manual_seed(0)
    return task, translation.load(config, folder), transformer.build(transformer.TINY, task.spec).eval()


BEAM = build_strategy("beam", beam_width=3)


def test_with_a_heavy_memory_a_training_source_has_its_target(with_memory):
    for task in with_memory[:2]:
        pairs = list(task.pairs["train"])[:10]
        for (_, target), (first, *_) in zip(
            pairs, task.predict(with_memory[2], [s for s, _ in pairs], Options(memory_weight=0.9), BEAM), strict=True
        ):
            assert first.text == target and first.data["retrieved"]["similarity"] == pytest.approx(1, abs=1e-4)


def test_words_of_the_text_replace_those_of_the_retrieved_pair(with_memory):
    task, _, model = with_memory
    ((first,),) = task.predict(model, ["call os.path.new with a red book"], Options(memory_weight=1.0), BEAM)
    assert first.text == "빨간 책으로 os.path.new를 부릅니다"
    assert first.data["retrieved"]["source"] == "call ① with a red book"


def test_a_loaded_task_has_the_same_batches_and_says_what_it_stores(with_memory):
    task, loaded, _ = with_memory
    first, second = (each.epoch_batches(0, 1) for each in (task, loaded))
    for batch, same in zip(first, second, strict=True):
        assert task.collate(batch).source.tokens.equal(loaded.collate(same).source.tokens)
    assert "①" in loaded.vocabularies.source.decode([loaded.corpus.source.row(0).tolist()])[0]
    assert task.stored_training_data == loaded.stored_training_data == "memory.json"
    assert translation.build(SMALL).stored_training_data == ""


def test_memory_weight_0_is_the_model_alone(with_memory):
    task, loaded, model = with_memory
    texts = ["call name_3 with a red book", "", "the nurse reads book 4"]
    alone = translation.load(replace(task.config, memory_weight=0.0), task.config.path.parent)
    expected = alone.predict(model, texts, Options(n=2), BEAM)
    assert expected == loaded.predict(model, texts, Options(n=2, memory_weight=0.0), BEAM)
    assert expected != loaded.predict(model, texts, Options(n=2), BEAM)


def test_a_choice_does_not_depend_on_the_batch(with_memory):
    task, _, model = with_memory
    texts = ["call name_3 with a red book", "the nurse reads", "", "a book"]
    together = texts_of(task.predict(model, texts, Options(n=3), BEAM))
    assert together == [texts_of(task.predict(model, [text], Options(n=3), BEAM))[0] for text in texts]
    assert together == texts_of(task.predict(model, texts, Options(n=3), BEAM))


def test_the_choice_with_a_memory_does_not_depend_on_n(with_memory):
    task, _, model = with_memory
    rows = [task.predict(model, ["call name_3 with a book"], Options(n=n), BEAM)[0] for n in (1, 3, 9)]
    assert [len(row) for row in rows] == [1, 3, 4]  # three hypotheses; the four retrieved targets are equal
    assert rows[0] == rows[1][:1] == rows[2][:1] and rows[1] == rows[2][:3]


def test_retrieved_targets_start_with_the_prefix(with_memory):
    config = replace(with_memory[0].config, placeholders=False, memory_pairs=80)
    task = translation.build(config)
    model = transformer.build(transformer.TINY, task.spec).eval()
    ((first,),) = task.predict(
        model, ["call name_3 with a red book"], Options(memory_weight=1.0, prefix="간호사가"), BEAM
    )
    assert first.text.startswith("간호사가") and "retrieved" in first.data


def test_metrics_alignments_and_partial_outputs_have_the_words_restored(with_memory):
    task, _, model = with_memory
    options = task.with_evaluation_options(translation.Evaluation(memory_weight=1.0))
    assert options.evaluate(model, "valid", BEAM)["chrf"] > task.evaluate(model, "valid", BEAM)["loss"]
    assert options.evaluate(model, "valid", BEAM)["chrf"] == pytest.approx(
        options.baselines("valid")["memory_consensus.chrf"]
    )
    ((aligned,),) = task.predict(model, ["call my.name now"], Options(memory_weight=1.0, alignments=True), BEAM)
    assert "my.name" in aligned.data["translation"] and all(link[0] < 3 for link in aligned.data["alignment"])
    row = task.vocabularies.target.encode(["①"])[0]
    assert task.partial_text("call my.name", Options(), row) == "my.name"
    source, target = next(iter(task.pairs["train"]))
    reference = task.reference(source)
    assert reference is not None and task.mask(source).restore(task.decode_tokens(reference)) == target


def test_a_request_for_a_memory_that_was_not_stored(task):
    model = transformer.build(transformer.TINY, task.spec).eval()
    with pytest.raises(
        ConfigError, match=r"memory_weight=0\.5: the run stores no training pairs; train with data\.memory_weight=0\.5"
    ):
        task.predict(model, ["a book"], Options(memory_weight=0.5), BEAM)


@pytest.mark.parametrize("build_settings", [Config, Options, translation.Evaluation])
def test_a_weight_of_the_memory_is_from_0_to_1(build_settings):
    with pytest.raises(ConfigError, match=r"memory_weight=1\.5 must be from 0 \(the model alone\) to 1"):
        build_settings(memory_weight=1.5)


def test_alignments_follow_the_translation(task):
    model = transformer.build(transformer.TINY, task.spec).eval()
    text, greedy = "the nurse is reading a book", build_strategy("greedy")
    ((plain,),) = task.predict(model, [text], Options(), greedy)
    for aligned_by in (model, model.for_decoding()):
        ((aligned,), (blank,)) = task.predict(aligned_by, [text, ""], Options(alignments=True), greedy)
        links = aligned.data["alignment"]
        assert aligned.text.split(" ||| ")[0] == aligned.data["translation"] == plain.text and blank.text == ""
        assert [target for _, target in links] == list(range(len(plain.text.split())))
        assert all(0 <= source < 6 for source, _ in links)


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
def test_translations_start_with_the_prefix(task, name):
    torch.manual_seed(0)
    model = transformer.build(transformer.TINY, task.spec).eval()
    prefix = next(iter(task.pairs["train"]))[1].split()[0]
    predictions = task.predict(model, ["a book", ""], Options(prefix=prefix), build_strategy(name))
    assert predictions[0][0].text.startswith(prefix) and predictions[1][0].text == ""


def test_a_prefix_that_cannot_be_generated_is_refused(task):
    message = r"^prefix: '🍎' has characters that no translation of this model has; give another one$"
    with pytest.raises(DataError, match=message):
        task.predict(None, ["a book"], Options(prefix=" 🍎 "), build_strategy("greedy"))


def test_a_prefix_longer_than_any_translation_is_refused(task):
    model = transformer.build(transformer.TINY, task.spec).eval()
    limit = task.spec.max_length - 1
    with pytest.raises(DataError, match=rf"prefix: it has \d+ tokens, the model generates up to {limit}"):
        task.predict(model, ["a book"], Options(prefix="x " * 2 * limit), build_strategy("greedy"))


def test_a_model_without_attention_has_no_alignments(task):
    model = seq2seq.build(seq2seq.TINY, task.spec).eval()
    with pytest.raises(ConfigError, match="alignments: the model has no attention from target to source"):
        task.predict(model, ["a book"], Options(alignments=True), build_strategy("greedy"))
