"""The endpoint of the verbs: its paths, its place next to FastAPI, and the cancellation by a disconnect."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from regard.core.cancellation import check_cancelled
from regard.core.task import Prediction
from regard.serve.app import create_app
from regard.serve.predict_endpoint import is_predict_request


def scope_of(path, method="POST", **more):
    headers = [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json")]
    return {"type": "http", "method": method, "path": path, "headers": headers, "client": ("127.0.0.1", 1), **more}


def test_paths_of_verbs():
    assert is_predict_request(scope_of("/v1/translate")) and is_predict_request(scope_of("/v1/dance"))
    for path in ("/", "/v1", "/v1/", "/v1/look", "/v1/a/b", "/api/look", "/v2/translate"):
        assert not is_predict_request(scope_of(path))
    assert not is_predict_request(scope_of("/v1/translate", "GET")) and not is_predict_request({"type": "lifespan"})
    assert not is_predict_request(scope_of("/v1/translate", root_path="/behind"))


def send_request(app, disconnect=None):
    """Send a request -> the messages of the response. The client disconnects when the event is set."""
    sent, body = [], json.dumps({"run": "en-ko", "inputs": ["a"]}).encode()
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        while not parts and not (disconnect is not None and disconnect.is_set()):
            await asyncio.sleep(0.01)
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    with ThreadPoolExecutor(1) as threads:  # a browser may have left a loop in this thread
        threads.submit(asyncio.run, app(scope_of("/v1/translate"), receive, send)).result(60)
    return sent


def test_requests_bypass_the_router(served_runs, monkeypatch):
    monkeypatch.setattr(served_runs[0], "predict", lambda inputs, *_: [[Prediction("b", -1.0, -1.0)] for _ in inputs])
    app = create_app(served_runs)
    monkeypatch.setattr(app, "router", None)
    start, body = send_request(app)
    assert start["status"] == 200
    assert json.loads(body["body"])["predictions"] == [
        [{"text": "b", "probability": math.exp(-1), "score": -1, "ranking_score": -1}]
    ]
    assert (b"content-length", str(len(body["body"])).encode()) in start["headers"]


def test_a_disconnect_ends_the_prediction(served_runs, monkeypatch):
    disconnect, ended = threading.Event(), threading.Event()

    def endless(*_):
        disconnect.set()
        try:
            while True:
                time.sleep(0.01)
                check_cancelled()
        finally:
            ended.set()

    monkeypatch.setattr(served_runs[0], "predict", endless)
    app = create_app(served_runs)
    start, _ = send_request(app, disconnect)
    assert start["status"] == 503 and ended.wait(10)
    assert app.state.policy.active == app.state.policy.pending_bytes == 0
