"""A run that is served by engine auto: another engine answers the usual request, ours everything else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
from fastapi.testclient import TestClient

import regard
from regard.engines import select
from regard.serve.model_runtime import open_runs
from regard.serve.server import ServerConfig
from regard.serve.service import create
from regard.training import recipe as recipes
from regard.training.train import train

SMALL = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", "data.pairs=300", "data.vocab_size=300"]
SHORT = ["training.steps=40", "training.evaluation.every=40", "model.dropout=0.0", "training.optimizer.lr=0.01"]
TEXTS = ["The cook is reading a book.", "They sleep.", "Please buy two apples."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run with a name of its own."""
    chosen = recipes.read("translation", settings=[*SMALL, *SHORT, "decoding=greedy"])
    return train(chosen, tmp_path_factory.mktemp("runs") / "en-ko")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))


@pytest.fixture
def hosted(folder):
    (one,), wrong = open_runs([folder], engine="auto", trust=False)
    assert not wrong
    return one


@pytest.fixture
def client(hosted):
    return TestClient(create([hosted]), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def texts_of(answer):
    assert answer.status_code == 200, answer.text
    return [[one["text"] for one in each] for each in answer.json()["answers"]]


def steps(client):
    """How many steps and batches were computed by now."""
    line = next(each for each in client.get("/metrics").text.splitlines() if each.startswith("regard_batch_inputs_cou"))
    return float(line.split()[-1])


def test_the_usual_request_is_answered_whole_by_the_other_engine(client, hosted, folder, monkeypatch):
    monkeypatch.setattr(hosted.run, "engine", lambda decoding: pytest.fail("our engine was asked"))
    wanted = [[one.text for one in each] for each in regard.load(folder).predict(TEXTS)]
    assert texts_of(client.post("/v1/translate", json={"inputs": TEXTS})) == wanted
    assert steps(client) == 1
    with ThreadPoolExecutor(8) as pool:
        asked = [number % len(TEXTS) for number in range(48)]
        found = pool.map(lambda number: client.post("/v1/translate", json={"inputs": [TEXTS[number]]}), asked)
        assert [texts_of(each) for each in found] == [[wanted[number]] for number in asked]
    assert 'regard_inputs_total{run="en-ko"} 51.0' in client.get("/metrics").text


def test_who_reads_along_or_wants_something_else_is_answered_by_ours_uncompared(client, hosted, monkeypatch):
    assert hosted.usual is not None
    monkeypatch.setattr(select.EngineSelector, "_compare", lambda *_: pytest.fail("compared for a request"))
    usual = client.post("/v1/translate", json={"inputs": TEXTS[:1]})
    streamed = client.post("/v1/translate", json={"inputs": TEXTS[:1], "stream": True}).text
    assert "event: token" in streamed and texts_of(usual)[0][0] in streamed
    before = steps(client)
    for more in ({"decoding": {"no_repeat": 2}}, {"decoding": "beam"}, {"options": {"nbest": 2}}):
        assert len(texts_of(client.post("/v1/translate", json={"inputs": TEXTS[:1], **more}))) == 1
    assert steps(client) > before + 3  # token by token


def test_where_the_engines_differ_ours_answers_and_it_is_said(folder, monkeypatch):
    monkeypatch.setattr(select, "difference", lambda *_: "CTranslate2 answers 'x' otherwise on comparing")
    said = []
    app = ServerConfig((folder,), engine="auto", warn=said.append)()
    assert said == ["en-ko: engine native: CTranslate2 answers 'x' otherwise on comparing"]
    assert app.state.service.hosted[0].usual is None


def test_our_engine_is_ours_alone(folder):
    (one,), _ = open_runs([folder], engine="native", trust=False)
    assert one.default_request is None and one.uses_own_decoder
