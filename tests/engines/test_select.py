"""Engine auto: CTranslate2 answers where it was found to answer as our own engine does, else our own, and says why."""

import pytest
import torch

import regard
from regard.attention.record import record
from regard.core.prediction import Prediction
from regard.engines import select
from regard.engines.ctranslate2 import cache as ctranslate2_cache
from regard.engines.select import find_difference
from regard.training import recipe as recipes
from regard.training.train import train

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
SMALL = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", "data.pairs=300", "data.vocab_size=300"]
SHORT = ["training.steps=40", "training.evaluation.every=40", "model.dropout=0.0", "training.optimizer.lr=0.01"]
TEXTS = ["The cook is reading a book.", "", "Please buy two apples."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    chosen = recipes.read("translation", settings=[*SMALL, *SHORT, "decoding=greedy"])
    return train(chosen, tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))


def loaded(folder, *settings, **how):
    return regard.load(folder, list(settings), engine="auto", **how)


def same(one, two):
    assert [[answer.text for answer in row] for row in one] == [[answer.text for answer in row] for row in two]
    for left, right in zip(one, two, strict=True):
        assert [a.score for a in left] == pytest.approx([a.score for a in right], rel=1e-3, abs=1e-3)


def test_a_run_keeps_texts_to_compare_engines_on(folder):
    assert len(regard.load(folder).task.comparison_inputs) == 32


def test_greedy_search_is_answered_by_ctranslate2_as_by_ours(folder):
    run = loaded(folder)
    same(run.predict(TEXTS), regard.load(folder).predict(TEXTS))
    assert (run.engine_note, run.uses_external_engine) == ("", True)
    assert run.torch_free_predictor() is not None


def test_an_answer_that_does_not_end_is_ours(folder):
    """At its limit our search ends a hypothesis and counts the end mark, which CTranslate2 does not."""
    settings = ["decoding.min_length=9"]
    long = " ".join(["cook"] * 40)
    same(loaded(folder, *settings).predict([long]), regard.load(folder, settings).predict([long]))


def test_what_was_found_is_kept_and_not_found_out_again(folder, monkeypatch):
    loaded(folder).predict(TEXTS)
    monkeypatch.setattr(select.EngineSelector, "_compare", lambda *given: pytest.fail("compared again"))
    assert loaded(folder).torch_free_predictor() is not None


def test_another_answer_is_left_to_our_engine_and_said(folder, monkeypatch):
    monkeypatch.setattr(select, "difference", lambda *given: "CTranslate2 answers 'x' otherwise on comparing")
    run = loaded(folder)
    same(run.predict(TEXTS), regard.load(folder).predict(TEXTS))
    assert run.engine_note == "engine native: CTranslate2 answers 'x' otherwise on comparing"
    assert run.torch_free_predictor() is None and not run.uses_external_engine


def test_each_request_is_compared_by_itself(folder):
    run = loaded(folder)
    run.predict([], nbest=1)
    run.predict([], decoding={"no_repeat": 2})
    export, _ = ctranslate2_cache.cache_path(folder)
    assert len(ctranslate2_cache.EquivalenceCache(export)._read()["requests"]) == 2


def test_draws_are_ours(folder):
    run = loaded(folder, "decoding=sample")
    same(run.predict(TEXTS), regard.load(folder, ["decoding=sample"]).predict(TEXTS))
    assert (run.engine_note, run.uses_external_engine) == ("", False)


def test_a_model_that_is_watched_or_changed_answers_itself(folder):
    run = loaded(folder)
    run.predict(TEXTS)
    with record(run.model) as maps:
        run.predict(TEXTS[:1])
    assert maps
    assert run.torch_free_predictor() is not None
    with torch.no_grad():
        run.model.readout.weight.mul_(-1)
    assert run.torch_free_predictor() is None
    assert run.translate(TEXTS) != regard.load(folder).translate(TEXTS)


def test_other_models_are_answered_by_our_engine_without_a_word(tmp_path):
    small = ["model=bahdanau", "model.dim=16", "model.embedding=8", "data.pairs=300", "data.vocab_size=300"]
    chosen = recipes.read("translation", settings=[*small, "training.steps=1", "training.evaluation.every=1"])
    run = loaded(train(chosen, tmp_path / "run"))
    assert len(run.translate(TEXTS)) == 3 and run.engine_note == ""


def test_positions_that_ctranslate2_does_not_know_are_ours(tmp_path):
    chosen = recipes.read(
        "translation",
        settings=[*SMALL, "model.position=rotary", "training.steps=1", "training.evaluation.every=1"],
    )
    run = loaded(train(chosen, tmp_path / "run"))
    assert len(run.translate(TEXTS)) == 3 and run.torch_free_predictor() is None and run.engine_note == ""


def test_eight_bits_by_ctranslate2(folder):
    run = loaded(folder, precision="int8")
    assert len(run.translate(TEXTS)) == 3 and run.uses_external_engine


def test_without_texts_to_compare_on_ours_answers(folder, monkeypatch):
    run = loaded(folder)
    run.task.comparison_inputs, run.task.examples = (), ()
    run.predict(TEXTS)
    assert run.engine_note == "engine native: the run has no examples on which engines could be compared"


def test_a_language_model_by_greedy_search(tmp_path):
    small = [
        "model.layers=1",
        "model.dim=16",
        "model.heads=2",
        "data.vocab_size=300",
        "data.context=24",
        "data.batch_size=4",
    ]
    short = ["training.steps=2", "training.evaluation.every=2", "data.eval_tokens=500", "decoding=greedy"]
    folder = train(recipes.read("language", settings=[*small, *short]), tmp_path / "run")
    run = loaded(folder)
    same(run.predict(["The list"], tokens=5), regard.load(folder).predict(["The list"], tokens=5))
    assert run.uses_external_engine
    for ours in ({"name": "beam", "width": 2}, {"name": "greedy", "no_repeat": 2}):
        run.predict(["The list"], tokens=5, decoding=ours)
        assert not run.uses_external_engine and not run.engine_note


ONE = [[Prediction("a", -1.0), Prediction("b", -2.0)]]


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (ONE, ""),
        ([[Prediction("a", -1.0005), Prediction("b", -2.0)]], ""),
        ([[Prediction("b", -2.0), Prediction("a", -1.0)]], "CTranslate2 answers 'x' otherwise on comparing"),
        ([[Prediction("a", -1.0)]], "CTranslate2 answers 'x' otherwise on comparing"),
        (
            [[Prediction("a", -1.1), Prediction("b", -2.0)]],
            "CTranslate2 scores 'x' otherwise on comparing (-1.1 and not -1.0)",
        ),
    ],
)
def test_answers_their_order_and_scores_are_compared(theirs, said):
    assert find_difference(["x"], ONE, theirs) == said
