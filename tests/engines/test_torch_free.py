"""Predictions without torch are those with torch; there is no predictor if any file has changed."""

import json
import shutil

import pytest

import regard
from regard.engines import torch_free
from regard.engines.ctranslate2 import cache

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
TEXTS = ["The cook is reading a book.", "", " ", "Please buy two apples.", "cook " * 30]


@pytest.fixture
def run(translation_run, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    folder = shutil.copytree(translation_run, tmp_path / "run")
    loaded = regard.load(folder, engine="auto")
    loaded.predict([])
    loaded.cache_command([])
    return loaded


def open_predictor(run, settings=()):
    def fallback(texts):
        return regard.load(run.folder).predict(texts)

    return torch_free.from_command_line(
        run.folder, list(settings), precision="float32", few_inputs=True, fallback=fallback
    )


def test_predictions_are_native_ones_with_a_fallback_for_unsettled_searches(run):
    rows = open_predictor(run).predict(TEXTS)
    native_rows = regard.load(run.folder).predict(TEXTS)
    assert [row[0].text for row in rows] == [row[0].text for row in native_rows]
    for row, native in zip(rows, native_rows, strict=True):
        assert len(row) == len(native) and row[0].score == pytest.approx(native[0].score, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("idle", [True, False])
def test_on_an_idle_machine_all_cores_decode_one_row(run, monkeypatch, idle):
    opened = []
    monkeypatch.setattr(torch_free, "is_idle", lambda: idle)
    open_export = torch_free.search.open_export

    def record(folder, **options):
        opened.append(options)
        return open_export(folder, **options)

    monkeypatch.setattr(torch_free.search, "open_export", record)
    texts = [row[0].text for row in open_predictor(run).predict(TEXTS[:1])]
    assert texts == [row[0].text for row in regard.load(run.folder).predict(TEXTS[:1])]
    assert opened == [{"precision": "float32", "single": idle}]


def test_arguments_that_are_not_cached_need_the_run(run):
    assert open_predictor(run) is not None
    assert open_predictor(run, ["n=2"]) is None


def test_changed_weights_settings_vocabularies_and_exports_need_the_run(run):
    def has_no_predictor_after(change, path):
        original = path.read_bytes()
        path.write_bytes(change(original))
        is_none = open_predictor(run) is None
        path.write_bytes(original)
        assert open_predictor(run) is not None
        return is_none

    def flip_bit(data):
        return data[:-1] + bytes([data[-1] ^ 1])

    export, _ = cache.cache_path(run.folder)
    for path in (
        run.folder / "model.safetensors",
        run.folder / "tokenizer.source.json",
        run.folder / "config.json",
        export / "model.bin",
        export / "equivalence.json",
    ):
        assert has_no_predictor_after(flip_bit, path), path
    assert has_no_predictor_after(lambda _: json.dumps({"version": 99}).encode(), run.folder / "config.json")


def test_a_folder_that_is_not_a_run_has_no_predictor(tmp_path):
    assert torch_free.from_command_line(tmp_path, [], precision="float32", few_inputs=True, fallback=list) is None
