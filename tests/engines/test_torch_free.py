"""Answers without torch are the answers with it, and there are none where anything has changed."""

import json
import shutil

import pytest

import regard
from regard.engines import torch_free
from regard.engines.ctranslate2 import cache
from regard.training import recipe as recipes
from regard.training.train import train

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
SMALL = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", "data.pairs=300", "data.vocab_size=300"]
SHORT = ["training.steps=40", "training.evaluation.every=40", "model.dropout=0.0", "training.optimizer.lr=0.01"]
TEXTS = ["The cook is reading a book.", "", " ", "Please buy two apples.", "cook " * 30]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    chosen = recipes.read("translation", settings=[*SMALL, *SHORT, "decoding=greedy"])
    return train(chosen, tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture
def run(original, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    folder = shutil.copytree(original, tmp_path / "run")
    loaded = regard.load(folder, engine="auto")
    loaded.predict([])
    loaded.cache_command([])
    return loaded


def found(run, words=(), **how):
    slow = lambda texts: regard.load(run.folder).predict(texts)  # noqa: E731  # an argument
    return torch_free.from_command_line(
        run.folder, list(words), precision="float32", few_inputs=True, fallback=slow, **how
    )


def test_the_same_answers_and_slow_ones_where_the_search_is_not_settled(run):
    answers = found(run).predict(TEXTS)
    expected = regard.load(run.folder).predict(TEXTS)
    assert [[a.text for a in row] for row in answers] == [[a.text for a in row] for row in expected]
    for ours, theirs in zip(answers, expected, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("idle", [True, False])
def test_on_an_idle_machine_all_cores_answer_one_row(run, monkeypatch, idle):
    opened = []
    monkeypatch.setattr(torch_free, "is_idle", lambda: idle)
    own = torch_free.ct2.open_export
    monkeypatch.setattr(torch_free.ct2, "open_export", lambda *given, **how: opened.append(how) or own(*given, **how))
    texts = [row[0].text for row in found(run).predict(TEXTS[:1])]
    assert texts == [row[0].text for row in regard.load(run.folder).predict(TEXTS[:1])]
    assert opened == [{"precision": "float32", "single": idle}]


def test_words_that_nobody_asked_before_need_the_run(run):
    assert found(run) is not None
    assert found(run, ["nbest=2"]) is None


def test_other_weights_settings_vocabularies_and_exports_need_the_run(run):
    def spoilt(path, change):
        before = path.read_bytes()
        path.write_bytes(change(before))
        nothing = found(run) is None
        path.write_bytes(before)
        assert found(run) is not None
        return nothing

    export, _ = cache.cache_path(run.folder)
    flipped = lambda data: data[:-1] + bytes([data[-1] ^ 1])  # noqa: E731  # an argument
    assert spoilt(run.folder / "model.safetensors", flipped)
    assert spoilt(run.folder / "tokenizer.source.json", flipped)
    assert spoilt(run.folder / "config.json", flipped)
    assert spoilt(run.folder / "config.json", lambda data: json.dumps({"version": 99}).encode())
    assert spoilt(export / "model.bin", flipped)
    assert spoilt(export / "equivalence.json", flipped)


def test_a_folder_that_is_no_run_has_no_quick_answers(tmp_path):
    assert torch_free.from_command_line(tmp_path, [], precision="float32", few_inputs=True, fallback=list) is None
