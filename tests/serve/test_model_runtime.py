"""A run served by engine auto: an external engine predicts the default request, the native engine all others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
from fastapi.testclient import TestClient

import regard
from regard.engines import select
from regard.serve.app import create_app
from regard.serve.model_runtime import open_runs
from regard.serve.server import ServerConfig

TEXTS = ["The cook is reading a book.", "They sleep.", "Please buy two apples."]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))


@pytest.fixture
def served(translation_run):
    (served,), errors = open_runs([translation_run], engine="auto", trust=False)
    assert not errors
    return served


@pytest.fixture
def client(served):
    return TestClient(create_app([served]), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def texts_of(response):
    assert response.status_code == 200, response.text
    return [[fields["text"] for fields in row] for row in response.json()["predictions"]]


def count_steps(client):
    """Return the number of steps and batches computed so far."""
    lines = client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("regard_batch_inputs_count")).split()[-1])


def test_the_default_request_is_predicted_by_the_external_engine(client, served, translation_run, monkeypatch):
    monkeypatch.setattr(served.run, "engine_handle", lambda decoding: pytest.fail("the native engine was used"))
    expected = [[prediction.text for prediction in row] for row in regard.load(translation_run).predict(TEXTS)]
    assert texts_of(client.post("/v1/translate", json={"inputs": TEXTS})) == expected
    assert count_steps(client) == 1
    with ThreadPoolExecutor(8) as threads:
        indices = [index % len(TEXTS) for index in range(48)]
        responses = threads.map(lambda index: client.post("/v1/translate", json={"inputs": [TEXTS[index]]}), indices)
        assert [texts_of(response) for response in responses] == [[expected[index]] for index in indices]
    assert 'regard_inputs_total{run="en-ko"} 51.0' in client.get("/metrics").text


def test_streams_and_other_requests_are_predicted_natively_without_a_comparison(client, served, monkeypatch):
    assert served.external_engine is not None
    monkeypatch.setattr(select.EngineSelector, "_compare", lambda *_: pytest.fail("compared for a request"))
    default = client.post("/v1/translate", json={"inputs": TEXTS[:1]})
    streamed = client.post("/v1/translate", json={"inputs": TEXTS[:1], "stream": True}).text
    assert "event: partial" in streamed and texts_of(default)[0][0] in streamed
    steps = count_steps(client)
    for fields in ({"decoding": {"no_repeat_ngram_size": 2}}, {"decoding": "beam"}, {"options": {"n": 2}}):
        assert len(texts_of(client.post("/v1/translate", json={"inputs": TEXTS[:1], **fields}))) == 1
    assert count_steps(client) > steps + 3  # token by token


def test_if_the_engines_differ_the_native_one_is_used_and_a_warning_given(translation_run, monkeypatch):
    monkeypatch.setattr(select, "find_difference", lambda *_: "CTranslate2 predicts another output")
    warnings = []
    app = ServerConfig((translation_run,), engine="auto", warn=warnings.append)()
    assert warnings == ["en-ko: engine native: CTranslate2 predicts another output"]
    assert app.state.service.hosted[0].external_engine is None


def test_engine_native_has_no_external_engine(translation_run):
    (served,), _ = open_runs([translation_run], engine="native", trust=False)
    assert served.external_engine is None and served.uses_native_decoder
