"""Requests to verbs by the shortest way: which these are, and that one whose client goes is not computed for."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from regard.core.cancellation import check_cancelled
from regard.core.task import Prediction
from regard.serve.predict_endpoint import is_predict_request
from regard.serve.service import create


def scope_of(path, method="POST", **more):
    headers = [(b"host", b"127.0.0.1:8000")]
    return {"type": "http", "method": method, "path": path, "headers": headers, "client": ("127.0.0.1", 1), **more}


def test_what_is_a_verb():
    assert is_predict_request(scope_of("/v1/translate")) and is_predict_request(scope_of("/v1/dance"))
    for path in ("/", "/v1", "/v1/", "/v1/look", "/v1/a/b", "/api/look", "/v2/translate"):
        assert not is_predict_request(scope_of(path))
    assert not is_predict_request(scope_of("/v1/translate", "GET")) and not is_predict_request({"type": "lifespan"})
    assert not is_predict_request(scope_of("/v1/translate", root_path="/behind"))


def asked(app, leaves=None):
    """One request by hand; the client goes when the event is set -> the messages of the answer."""
    sent, body = [], json.dumps({"run": "en-ko", "inputs": ["a"]}).encode()
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        while not parts and not (leaves is not None and leaves.is_set()):
            await asyncio.sleep(0.01)
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    with ThreadPoolExecutor(1) as threads:  # this one may have a loop, of a browser
        threads.submit(asyncio.run, app(scope_of("/v1/translate"), receive, send)).result(60)
    return sent


def test_it_is_answered_without_the_layers_of_pages(hosted, monkeypatch):
    monkeypatch.setattr(hosted[0], "answer", lambda inputs, *_: [[Prediction("b", -1.0, -1.0)] for _ in inputs])
    app = create(hosted)
    monkeypatch.setattr(app, "router", None)
    start, body = asked(app)
    assert start["status"] == 200 and json.loads(body["body"])["answers"] == [[{"text": "b", "score": -1, "rank": -1}]]
    assert (b"content-length", str(len(body["body"])).encode()) in start["headers"]


def test_a_client_that_goes_is_not_computed_for(hosted, monkeypatch):
    leaves, ended = threading.Event(), threading.Event()

    def endless(*_):
        leaves.set()
        try:
            while True:
                time.sleep(0.01)
                check_cancelled()
        finally:
            ended.set()

    monkeypatch.setattr(hosted[0], "answer", endless)
    app = create(hosted)
    start, _ = asked(app, leaves)
    assert start["status"] == 503 and ended.wait(10)
    assert app.state.allowed.active == app.state.allowed.held == 0
