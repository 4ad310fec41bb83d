"""Engine auto: CTranslate2 is used if it gives the native results, else the native engine, with a reason."""

import json
import shutil

import pytest
import torch

import regard
from regard.attention.record import record
from regard.convert.export_run import EXPORTERS, export_run
from regard.core.errors import CheckpointError, ConfigError
from regard.core.prediction import Prediction
from regard.engines import select
from regard.engines.ctranslate2 import cache as ctranslate2_cache
from regard.engines.select import find_difference
from regard.training import recipe as recipes
from regard.training.train import train

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
SMALL = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", "data.pairs=300", "data.vocab_size=300"]
TEXTS = ["The cook is reading a book.", "", "Please buy two apples."]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))


def load_auto(translation_run, *settings, **options):
    return regard.load(translation_run, list(settings), engine="auto", **options)


def texts_of(rows):
    return [[prediction.text for prediction in row] for row in rows]


def assert_same(rows, expected_rows):
    assert texts_of(rows) == texts_of(expected_rows)
    for row, expected in zip(rows, expected_rows, strict=True):
        scores = [prediction.score for prediction in expected]
        assert [prediction.score for prediction in row] == pytest.approx(scores, rel=1e-3, abs=1e-3)


def test_a_run_stores_inputs_for_the_comparison(translation_run):
    assert len(regard.load(translation_run).task.comparison_inputs) == 32


def test_greedy_search_by_ctranslate2_gives_the_native_results(translation_run):
    run = load_auto(translation_run)
    assert_same(run.predict(TEXTS), regard.load(translation_run).predict(TEXTS))
    assert (run.engine_note, run.uses_external_engine) == ("", True)
    assert run.torch_free_predictor() is not None


@pytest.mark.parametrize("setting", ["data.similar_pairs=1", "data.placeholders=true", "data.memory_weight=0.5"])
def test_texts_that_only_the_task_encodes_are_predicted_with_torch(setting, tmp_path):
    settings = [*SMALL, "data.joint=true", setting, "training.steps=2", "decoding=greedy"]
    folder = train(recipes.read("translation", settings=settings), tmp_path / "run")
    run = load_auto(folder)
    assert run.torch_free_predictor() is None
    assert texts_of(run.predict(TEXTS)) == texts_of(regard.load(folder).predict(TEXTS))
    for format_name in EXPORTERS:
        with pytest.raises(ConfigError, match=rf"export contains the model alone, and {setting.split('=')[0]} adds"):
            export_run(folder, format_name, tmp_path / "export")


def test_an_output_that_does_not_end_is_decoded_natively(translation_run):
    """At the limit the native search ends a hypothesis and counts EOS, which CTranslate2 does not."""
    settings = ["decoding.min_length=9"]
    long = " ".join(["cook"] * 40)
    assert_same(
        load_auto(translation_run, *settings).predict([long]), regard.load(translation_run, settings).predict([long])
    )


def test_a_comparison_is_cached(translation_run, monkeypatch):
    load_auto(translation_run).predict(TEXTS)
    monkeypatch.setattr(select.EngineSelector, "_compare", lambda *_: pytest.fail("compared again"))
    assert load_auto(translation_run).torch_free_predictor() is not None


def test_if_the_results_differ_the_native_engine_is_used_and_the_reason_given(translation_run, monkeypatch):
    monkeypatch.setattr(select, "find_difference", lambda *_: "CTranslate2 predicts another output")
    run = load_auto(translation_run)
    assert_same(run.predict(TEXTS), regard.load(translation_run).predict(TEXTS))
    assert run.engine_note == "engine native: CTranslate2 predicts another output"
    assert run.torch_free_predictor() is None and not run.uses_external_engine


def test_each_kind_of_request_is_compared(translation_run):
    run = load_auto(translation_run)
    run.predict([], n=1)
    run.predict([], decoding={"no_repeat_ngram_size": 2})
    export, _ = ctranslate2_cache.cache_path(translation_run)
    assert len(ctranslate2_cache.EquivalenceCache(export)._read()["requests"]) == 2


def test_samples_are_native(translation_run):
    run = load_auto(translation_run, "decoding=sample")
    assert_same(run.predict(TEXTS), regard.load(translation_run, ["decoding=sample"]).predict(TEXTS))
    assert (run.engine_note, run.uses_external_engine) == ("", False)


def test_a_model_with_hooks_or_changed_weights_is_used_natively(translation_run):
    run = load_auto(translation_run)
    run.predict(TEXTS)
    with record(run.model) as maps:
        run.predict(TEXTS[:1])
    assert maps
    assert run.torch_free_predictor() is not None
    with torch.no_grad():
        run.model.readout.weight.mul_(-1)
    assert run.torch_free_predictor() is None
    assert run.translate(TEXTS) != regard.load(translation_run).translate(TEXTS)


def test_unsupported_models_use_the_native_engine_without_a_note(tmp_path):
    small = ["model=bahdanau", "model.dim=16", "model.embedding=8", "data.pairs=300", "data.vocab_size=300"]
    recipe = recipes.read("translation", settings=[*small, "training.steps=1", "training.evaluation.every=1"])
    run = load_auto(train(recipe, tmp_path / "run"))
    assert len(run.translate(TEXTS)) == 3 and run.engine_note == ""


def test_unsupported_positions_use_the_native_engine(tmp_path):
    recipe = recipes.read(
        "translation",
        settings=[*SMALL, "model.position=rotary", "training.steps=1", "training.evaluation.every=1"],
    )
    run = load_auto(train(recipe, tmp_path / "run"))
    assert len(run.translate(TEXTS)) == 3 and run.torch_free_predictor() is None and run.engine_note == ""


def test_int8_by_ctranslate2(translation_run):
    run = load_auto(translation_run, precision="int8")
    assert len(run.translate(TEXTS)) == 3 and run.uses_external_engine


def test_without_inputs_to_compare_the_native_engine_is_used(translation_run):
    run = load_auto(translation_run)
    run.task.comparison_inputs, run.task.examples = (), ()
    run.predict(TEXTS)
    assert run.engine_note == "engine native: the run has no examples on which engines can be compared"


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
    run = load_auto(folder)
    assert_same(run.predict(["The list"], tokens=5), regard.load(folder).predict(["The list"], tokens=5))
    assert run.uses_external_engine
    for decoding in ({"name": "beam", "beam_width": 2}, {"name": "greedy", "no_repeat_ngram_size": 2}):
        run.predict(["The list"], tokens=5, decoding=decoding)
        assert not run.uses_external_engine and not run.engine_note


NATIVE = [[Prediction("a", -1.0), Prediction("b", -2.0)]]


@pytest.mark.parametrize(
    ("external", "message"),
    [
        (NATIVE, ""),
        ([[Prediction("a", -1.0005), Prediction("b", -2.0)]], ""),
        (
            [[Prediction("b", -2.0), Prediction("a", -1.0)]],
            "CTranslate2 predicts another output for 'x' in the comparison",
        ),
        ([[Prediction("a", -1.0)]], "CTranslate2 predicts another output for 'x' in the comparison"),
        (
            [[Prediction("a", -1.1), Prediction("b", -2.0)]],
            "CTranslate2 has another score for 'x' in the comparison (-1.1, not -1.0)",
        ),
    ],
)
def test_texts_order_and_scores_are_compared(external, message):
    assert find_difference(["x"], NATIVE, external) == message


def copy_with_other_heads(folder, target):
    """Copy a run and edit its configuration, as a user may: the weights are the same, the answers are not."""
    shutil.copytree(folder, target)
    table = json.loads((target / "config.json").read_text(encoding="utf-8"))
    del table["sha256"]
    table["model"]["heads"] = 1
    (target / "config.json").write_text(json.dumps(table), encoding="utf-8")
    return target


@pytest.mark.parametrize("own_first", [True, False])
def test_a_run_with_the_same_weights_and_another_configuration_has_another_export(
    translation_run, tmp_path, monkeypatch, own_first
):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    edited = copy_with_other_heads(translation_run, tmp_path / "edited")
    for folder in (translation_run, edited) if own_first else (edited, translation_run):
        assert_same(load_auto(folder).predict(TEXTS), regard.load(folder).predict(TEXTS))
    scores = [regard.load(folder).predict(TEXTS[:1])[0][0].score for folder in (edited, translation_run)]
    assert abs(scores[0] - scores[1]) > 0.01
    assert len(list((tmp_path / "cache" / "ctranslate2").iterdir())) == 2


def test_the_export_of_an_untrusted_run_is_not_used_for_another_folder(translation_run, tmp_path):
    copies = [shutil.copytree(translation_run, tmp_path / name) for name in ("first", "second")]
    paths = {ctranslate2_cache.cache_path(copy, trusted=False) for copy in copies}
    assert len(paths) == 2
    assert len({ctranslate2_cache.cache_path(copy, trusted=True) for copy in copies} - paths) == 1


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.source.json"])
def test_the_key_of_an_export_depends_on_every_file(translation_run, tmp_path, name):
    run = shutil.copytree(translation_run, tmp_path / "run")
    before = ctranslate2_cache.export_key(run, trusted=True)
    content = (run / name).read_bytes()
    changed = content.replace(b'"steps": 40', b'"steps":  40') if name == "config.json" else content + b" "
    table = json.loads(changed) if name == "config.json" else None
    if table is not None:
        del table["sha256"]
        changed = json.dumps(table).encode()
    (run / name).write_bytes(changed)
    assert ctranslate2_cache.export_key(run, trusted=True) != before


def test_weights_that_change_after_loading_are_not_exported_under_the_key_of_the_new_ones(translation_run, tmp_path):
    folder = shutil.copytree(translation_run, tmp_path / "run")
    run = load_auto(folder)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights)  # as a training that goes on
    run.predict(TEXTS)
    assert not run.uses_external_engine
    with pytest.raises(CheckpointError, match="has changed since the run was loaded; load the run again"):
        run._parts.check_unchanged()
