"""The application: predictions, inspections, metadata and the explorer's pages; every mistake is a one-line error."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
import tiny_runs
from browser import opened, serving
from fastapi.testclient import TestClient

from regard.core.cancellation import Cancelled, check_cancelled
from regard.core.errors import ConfigError, RegardError
from regard.core.task import Prediction
from regard.inspection.collect import collect
from regard.inspection.interventions import Interventions
from regard.inspection.json_format import step_to_json, to_json
from regard.inspection.map_tiles import pack_tile, pyramid, quantize
from regard.serve import inspections
from regard.serve.app import create_app, create_explorer_app, explorer_app
from regard.serve.inspection_cache import InspectionCache, size_of
from regard.serve.inspections import Session
from regard.serve.model_runtime import open_runs

HEAD = ["decoder.layers.0.cross_attn", 1]
TEXTS = ["They sleep.", "Please buy two apples."]
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture
def explorer(run, sentence):
    return TestClient(create_explorer_app(run, sentence), base_url="http://127.0.0.1:8765")


def client_of(served_runs, **settings):
    return TestClient(create_app(served_runs, **settings), base_url=ADDRESS, raise_server_exceptions=False)


@pytest.fixture
def client(served_runs):
    return client_of(served_runs)


def translate(client, **body):
    return client.post("/v1/translate", json={"run": "en-ko", "inputs": TEXTS, **body})


def as_json(data):
    """Convert as JSON does: tuples become lists."""
    return json.loads(json.dumps(data))


def test_an_inspection_is_the_data_of_the_page(explorer, subject, sentence):
    response = explorer.post("/api/look", json={"text": sentence}).json()
    expected = as_json(to_json(collect(subject, sentence)))
    assert response["maps"] == expected["maps"] and response["axes"] == expected["axes"]
    assert response["outputs"] == expected["outputs"] and response["server"] == "/api"


def test_interventions_by_request(explorer, subject, sentence):
    body = {
        "text": sentence,
        "disabled_heads": [HEAD],
        "hidden_items": [["source", 1], ["read", 0]],
        "temperature": 2.5,
    }
    response = explorer.post("/api/look", json=body).json()
    interventions = Interventions(((HEAD[0], 1),), (("source", 1), ("read", 0)), 2.5)
    expected = as_json(to_json(collect(subject, sentence, interventions=interventions)))
    assert response["maps"] == expected["maps"] and response["outputs"] == expected["outputs"]
    unchanged = explorer.post("/api/look", json={"text": sentence}).json()
    assert unchanged["maps"] == as_json(to_json(collect(subject, sentence)))["maps"]


def test_tiles_of_an_inspection(explorer, subject, sentence):
    response = explorer.post("/api/look", json={"text": sentence}).json()
    query = {"look": response["id"], "map": 0, "head": 1, "level": 0, "i": 0, "j": 0}
    tile = explorer.get("/api/tile", params=query).json()["data"]
    assert tile == pack_tile(pyramid(quantize(collect(subject, sentence).maps[0].weights[1]))[0], 0, 0)
    missing = explorer.get("/api/tile", params={**query, "head": 99})
    assert missing.status_code == 400 and "no tile map=0 head=99 level=0" in missing.json()["error"]


def test_an_inspection_that_is_not_cached_is_recomputed(subject, sentence):
    size = size_of(collect(subject, sentence))
    session = Session(subject, cache=InspectionCache(int(4.5 * size)))
    inspection_id = session.inspect(sentence, Interventions(temperature=0.5))["id"]
    tile = session.tile(inspection_id, map=0, head=0, level=0, index=(0, 0))
    later_ids = [session.inspect(sentence, Interventions())["id"] for _ in range(5)]
    assert len(session._cache) == 4 and session._cache.get(inspection_id) is None
    assert 3 * size < session._cache.size_bytes <= 4.5 * size
    assert session.tile(inspection_id, map=0, head=0, level=0, index=(0, 0)) == tile
    assert session.tile(later_ids[0], map=0, head=0, level=0, index=(0, 0)) != tile
    for unknown_id in ("0", "99", "first"):
        with pytest.raises(RegardError, match=f"no inspection '{unknown_id}'; send the input again"):
            session.tile(unknown_id, map=0, head=0, level=0, index=(0, 0))


def test_the_numbers_of_a_head(explorer, subject, sentence):
    response = explorer.post("/api/look", json={"text": sentence}).json()
    step = collect(subject, sentence).steps[1]
    query = {"look": response["id"], "map": step.map, "head": step.head}
    assert explorer.get("/api/step", params=query).json() == as_json(step_to_json(step))
    missing = explorer.get("/api/step", params={**query, "head": 99})
    assert missing.status_code == 400 and "no head 99 of map" in missing.json()["error"]


def test_errors_in_a_browser_are_a_page(subject, sentence):
    without_attention = tiny_runs.make_subject(subject.task, "seq2seq")
    for target, path, status, message in [
        (without_attention, "/", 400, "seq2seq"),
        (subject, "/?text=%20", 400, "sentence"),
        (subject, "/?text=%3Cb%3E%20", 200, ""),
        (subject, "/nowhere", 404, "no page &#x27;/nowhere&#x27; on this server"),
    ]:
        response = TestClient(explorer_app(target, sentence), base_url="http://127.0.0.1").get(path)
        assert response.status_code == status and response.headers["content-type"].startswith("text/html")
        assert message in response.text
        assert ('<form class="asking"' in response.text) == (status != 200)
    nowhere = TestClient(explorer_app(subject, sentence), base_url="http://127.0.0.1").get("/api/nowhere")
    assert nowhere.status_code == 404 and nowhere.json() == {"error": "no page '/api/nowhere' on this server"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "a request is an object with a text"),
        ({"text": 5}, "a request is an object with a text"),
        ({"text": "a", "disabled_heads": "all"}, "disabled_heads='all': must be a list of [attention module, head]"),
        ({"text": "a", "disabled_heads": [["x", "y"]]}, "must be a list of [attention module, head]"),
        ({"text": "a", "hidden_items": [1]}, "hidden_items=[1]: must be a list of [axis, item]"),
        ({"text": "a", "hidden_items": [["source", True]]}, "[['source', True]]: must be a list of [axis, item]"),
        ({"text": "a", "temperature": "hot"}, "temperature='hot': must be a number"),
        ({"text": "a", "temperature": 0}, "temperature=0.0"),
        ({"text": "a", "off": []}, "the field 'off' was renamed; use 'disabled_heads'"),
        ({"text": " "}, "sentence"),
        ({"text": "word " * 300}, "at most 12"),
        ({"text": "They sleep.", "hidden_items": [["source", 99]]}, "item 99 of 'source'"),
        ({"text": "They sleep.", "hidden_items": [["sauce", 0]]}, "did you mean 'source'"),
    ],
)
def test_an_invalid_inspection_is_a_one_line_error(explorer, body, message):
    response = explorer.post("/api/look", json=body)
    assert response.status_code == 400
    assert message in response.json()["error"] and "\n" not in response.json()["error"]


def test_the_page_initially_shows_an_example_of_the_task(run):
    page = TestClient(create_explorer_app(run), base_url="http://localhost").get("/").text
    assert json.dumps(run.task.examples[0]) in page
    without_examples = SimpleNamespace(**{**vars(run), "task": SimpleNamespace(examples=())})
    with pytest.raises(RegardError, match=r"en-ko: its task has no example to show first; give an input"):
        create_explorer_app(without_examples)


@pytest.mark.parametrize(
    "content", [b"{", b'{"text": "\\ud800"}', b'{"text": "They sleep.", "temperature": 1' + b"0" * 400 + b"}"]
)
def test_invalid_json_is_400(explorer, content):
    response = explorer.post("/api/look", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400 and response.json()["error"]


def test_a_tile_that_does_not_exist_is_400(explorer, sentence):
    inspection = explorer.post("/api/look", json={"text": sentence}).json()
    for index in ({"head": -1}, {"i": -1}, {"i": 10**30}, {"level": 10**30}, {"map": "x"}, {"j": 1.5}):
        query = {"look": inspection["id"], "map": 0, "head": 1, "level": 0, "i": 0, "j": 0, **index}
        response = explorer.get("/api/tile", params=query)
        assert response.status_code == 400 and "tile" in response.json()["error"], index


def test_on_loopback_only_requests_to_this_machine_are_served(run, sentence):
    local, public = create_explorer_app(run, sentence), create_explorer_app(run, sentence, host="0.0.0.0")
    request = {"url": "/api/look", "json": {"text": sentence}}
    assert TestClient(local, base_url="http://evil.example").post(**request).status_code == 421
    assert TestClient(public, base_url="http://evil.example").post(**request).status_code == 200


def test_an_inspection_is_cancelled_at_its_deadline(explorer, sentence, monkeypatch):
    monkeypatch.setattr("regard.serve.cancellation.REQUEST_TIMEOUT_S", -1.0)
    response = explorer.post("/api/look", json={"text": sentence})
    assert response.status_code == 503
    assert response.json()["error"] == "the request took longer than -1 seconds; send a shorter input"


def test_an_inspection_that_waits_for_the_lock_can_be_cancelled(subject, sentence):
    session = Session(subject)

    def disconnected():
        raise Cancelled("the client disconnected")

    with session._lock.exclusive(), pytest.raises(Cancelled, match="the client disconnected"):
        session.inspect(sentence, Interventions(), disconnected)
    assert session.inspect(sentence, Interventions())["id"]


def test_a_disconnect_ends_the_computation(run, sentence, monkeypatch):
    started, ended = threading.Event(), threading.Event()

    def endless(target, text, *, interventions):
        started.set()
        try:
            for _ in range(3000):
                time.sleep(0.01)
                check_cancelled()
        finally:
            ended.set()

    monkeypatch.setattr("regard.serve.inspections.collect", endless)
    body = json.dumps({"text": sentence}).encode()
    head = (
        "POST /api/look HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with serving(create_explorer_app(run, sentence)) as url:
        with socket.create_connection(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))) as connection:
            connection.sendall(head + body)
            assert started.wait(10) and not ended.is_set()
        assert ended.wait(5)


def test_the_served_page_applies_interventions(browser, run, subject, sentence):
    original = collect(subject, sentence)
    changed = collect(subject, sentence, interventions=Interventions((), (("source", 2),)))
    app = create_explorer_app(run, sentence)
    with serving(app) as url, opened(browser, url, offline=False, fragment="#view=grid") as page:
        assert page.locator(".spoken.output .spoken-text").inner_text() == original.outputs[0].text
        token = page.locator(".token-switch >> nth=2")
        token.click()
        page.locator(".outcome").wait_for()
        assert page.locator(".token-switch[aria-pressed=true]").count() == 1
        assert changed.outputs[0].text in page.locator(".outcome").inner_text()
        column = page.locator(".large .share >> nth=2").locator(".share-value")
        assert column.inner_text() == "0.0000"
        page.get_by_role("button", name="Undo all").click()
        page.locator(".outcome").wait_for(state="detached")
        page.get_by_role("button", name="Switch off Output → source, layer 1, head 2").click()
        page.locator(".outcome").wait_for()
        page.get_by_role("button", name="Output → source, layer 1, head 2", exact=True).click()
        assert page.locator(".large .sum").inner_text() == "this head is switched off"
        assert f"map={HEAD[0]}" in page.url
        page.get_by_role("button", name="Undo all").click()
        page.locator(".spoken.output .spoken-text", has_text=original.outputs[0].text).wait_for()
        page.get_by_label("Axis").select_option("read")
        assert page.locator(".token-switch").all_inner_texts() == list(original.axes["read"].labels)
        page.locator(".token-switch >> nth=0").click()
        page.locator(".token-switch[aria-pressed=true]").wait_for()


def test_the_served_page_takes_a_new_input_and_shows_errors(browser, run, sentence):
    app = create_explorer_app(run, sentence)
    with serving(app) as url, opened(browser, url, offline=False, expected="400 (Bad Request)") as page:
        page.get_by_label("Input").fill("<b>They</b> sleep.")
        page.get_by_role("button", name="Inspect", exact=True).click()
        page.locator(".spoken.input .spoken-text", has_text="<b>They</b> sleep.").wait_for()
        page.get_by_label("Input").fill("word " * 300)
        page.get_by_role("button", name="Inspect", exact=True).click()
        page.locator(".wrong").wait_for()
        assert "at most 12" in page.locator(".wrong").inner_text()


def test_predictions_are_those_of_the_run(client, loaded_run):
    response = translate(client).json()
    assert response["run"] == "en-ko" and response["verb"] == "translate"
    assert [row[0]["text"] for row in response["predictions"]] == loaded_run.translate(TEXTS)
    decoding = {"name": "beam", "beam_width": 3, "no_repeat_ngram_size": 1}
    rows = translate(client, options={"n": 2}, decoding=decoding).json()["predictions"]
    expected = loaded_run.predict(TEXTS, n=2, decoding=decoding)
    assert [[fields["text"] for fields in row] for row in rows] == [
        [prediction.text for prediction in row] for row in expected
    ]


def test_concurrent_clients_get_their_own_predictions(client, loaded_run):
    expected = {text: loaded_run.translate([text])[0] for text in TEXTS}
    mistakes = []

    def send(index):
        text = TEXTS[index % 2]
        response = translate(client, inputs=[text], run=("en-ko", "other")[index // 2 % 2]).json()
        if response["predictions"][0][0]["text"] != expected[text]:
            mistakes.append(response)

    threads = [threading.Thread(target=send, args=(index,)) for index in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert mistakes == []


def test_a_stream_has_partial_outputs_and_then_the_predictions(client, loaded_run):
    response = translate(client, inputs=TEXTS[:1], stream=True)
    events = [part.split("\ndata: ") for part in response.text.strip().split("\n\n")]
    tables = [json.loads(data) for _, data in events]
    assert [name for name, _ in events] == [*["event: partial"] * (len(events) - 1), "event: predictions"]
    best = tables[-1]["predictions"][0][0]["text"]
    assert best == loaded_run.translate(TEXTS[:1])[0] and len(events) > 1 and tables[-2]["text"] == best
    assert response.headers["cache-control"] == "no-store"
    error = translate(client, inputs=["word " * 300], stream=True).text
    assert error.startswith("event: error\n") and "at most" in error


def test_metadata_metrics_and_documentation(client):
    assert client.get("/health").json()["runs"] == ["en-ko", "other"]
    first, _ = client.get("/v1/runs").json()["runs"]
    assert first["verbs"] == ["translate"] and first["options"]["properties"]["n"]["maximum"] == 32
    assert translate(client, inputs=first["example"]["inputs"]).status_code == 200
    translate(client, inputs=[])
    client.post("/v1/dance", json={})
    metrics = client.get("/metrics").text
    assert 'regard_requests_total{run="en-ko",status="200",verb="translate"} 1.0' in metrics
    assert 'regard_requests_total{run="",status="400",verb="translate"} 1.0' in metrics
    assert 'status="404",verb=""' in metrics and 'regard_waiting_inputs{run="other"} 0.0' in metrics
    docs = client.get("/docs").text
    url = str(client.base_url).rstrip("/")
    assert f"curl {url}/v1/translate " in docs
    assert "http" not in docs.replace(url, "").replace("http-equiv", "")  # nothing is loaded from other servers
    assert "POST /v1/translate" in docs and first["options"]["properties"]["n"]["description"] in docs


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/translate", {"inputs": ["a"]}, 404, "run is missing, and several runs are served; use one of: en-ko, ot"),
        ("/v1/translate", {"inputs": ["a"], "run": "none"}, 404, "no run 'none' with the verb 'translate'; use one of"),
        (
            "/v1/translate",
            {"inputs": [1], "run": "other"},
            422,
            "input 1: 1 is neither a text nor a file; write a text",
        ),
        ("/v1/dance", {"inputs": ["a"]}, 404, "no run has the verb 'dance'; known: translate"),
        ("/v1/translate", [], 400, 'a request is an object: {"inputs": ["…"]}'),
        ("/v1/translate", {"text": "a"}, 400, "unknown field 'text'"),
        ("/v1/translate", {"run": "other", "inputs": "a"}, 400, "inputs: must be a non-empty list of texts or files"),
        ("/v1/translate", {"run": "other", "inputs": ["a"] * 65}, 400, "65 inputs: a request has at most 64"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "options": 1}, 400, "options: must be an object"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "files": "x"}, 400, "files: must be a list of suffixes"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "stream": 1}, 400, "stream: must be true or false"),
        ("/v1/translate", {"run": "other", "inputs": ["a", "b"], "stream": True}, 422, "stream: only for one input"),
        ("/v1/translate", {"run": "other", "inputs": [{"file": "AA=="}]}, 422, "input 1: must be a text for this run"),
        ("/v1/translate", {"run": "other", "inputs": ["a" * 100_001]}, 422, "input 1: has 100,001 characters"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "decoding": 5}, 422, "decoding: must be the name of a str"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "decoding": "os.path"}, 422, "no strategy 'os.path'"),
        (
            "/v1/translate",
            {"run": "other", "inputs": ["a"] * 20, "decoding": {"name": "beam", "beam_width": 32}},
            422,
            "20 inputs with beam width 32: too many hypotheses; send at most 16 inputs at a time",
        ),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "files": [".exe"]}, 422, ".exe"),
        ("/v1/look", {"text": "a"}, 400, "an inspection has an input"),
        ("/v1/look", {"input": "a"}, 404, "run is missing, and several runs are served"),
        ("/v1/look", {"input": "a", "temprature": 3}, 400, "unknown field 'temprature'; did you mean 'temperature'?"),
        ("/v1/look", {"input": "a", "forbid": []}, 400, "the field 'forbid' was renamed; use 'hidden_items'"),
        ("/api/none/look", {"text": "a"}, 404, "no run 'none'; use one of: en-ko, other"),
    ],
)
def test_an_invalid_request_is_a_one_line_error(client, path, body, status, message):
    response = client.post(path, json=body)
    assert response.status_code == status and message in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_unknown_token_ids_are_a_one_line_error(client):
    for decoding in ({"suppress_tokens": [10**9]}, {"name": "forced_prefix", "tokens": [10**9]}):
        response = translate(client, decoding=decoding)
        assert response.status_code == 422 and "1000000000" in response.json()["error"]


def test_invalid_bodies_and_methods_are_refused(client):
    for content in (b"", b"\xff\xfe", b"[" * 100_000, b'{"inputs": [1e999]}', b'{"inputs": ["\\ud800"]}', b"\0"):
        headers = {"content-type": "application/json; charset=utf-8"}
        assert client.post("/v1/translate", content=content, headers=headers).status_code == 400
    response = client.get("/v1/translate")
    assert response.status_code == 405 and response.json()["error"] == "method GET is not allowed; use POST"


def test_internal_errors_expose_no_details(served_runs, monkeypatch):
    def broken(*_):
        raise RuntimeError("line 5 of secret.py")

    monkeypatch.setattr(served_runs[0], "predict", broken)
    client = client_of(served_runs)
    response = translate(client)
    assert response.status_code == 500 and "secret" not in response.text
    assert response.json()["error"] == "internal server error; see the log of the server"
    assert translate(client, run="other").status_code == 200


def test_an_infinite_score_is_null(served_runs, monkeypatch):
    predictions = [[Prediction("x", -float("inf"))] for _ in TEXTS]
    monkeypatch.setattr(served_runs[0], "predict", lambda *_: predictions)
    fields = translate(client_of(served_runs)).json()["predictions"][0][0]
    assert fields == {"text": "x", "probability": 0.0, "score": None, "ranking_score": None}


def test_files_of_predictions_are_base64_and_limited(served_runs, monkeypatch):
    prediction = Prediction("x", files={".bin": lambda: b"content"})
    monkeypatch.setattr(served_runs[0], "predict", lambda inputs, *_: [[prediction] for _ in inputs])
    client = client_of(served_runs)
    files = translate(client, files=[".bin"]).json()["predictions"][0][0]["files"]
    assert base64.b64decode(files[".bin"]) == b"content"
    monkeypatch.setattr("regard.serve.responses.MAX_FILE_BYTES", 5)
    error = translate(client, files=[".bin"]).json()["error"]
    assert error == "the files of the predictions have more than 5 bytes; request fewer"


def test_a_prediction_is_cancelled_at_its_deadline(served_runs, monkeypatch):
    monkeypatch.setattr("regard.serve.cancellation.REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(served_runs[0], "predict", lambda *_: threading.Event().wait(2))
    client = client_of(served_runs)
    response = translate(client)
    assert response.status_code == 503 and response.headers["retry-after"] == "1"
    assert response.json()["error"] == "the request took longer than 0.3 seconds; send fewer inputs at a time"
    assert '"status": 503' in translate(client, inputs=TEXTS[:1], stream=True).text


def test_a_full_queue_is_429_with_retry_after(served_runs):
    client = client_of(served_runs)
    client.app.state.service.schedulers["en-ko"]._max_queued = 1
    response = translate(client)
    assert response.status_code == 429 and response.headers["retry-after"] == "1"
    assert "the queue is full (0 inputs); retry in 1 s" in response.json()["error"]


def test_the_key_is_required(served_runs):
    client = client_of(served_runs, key="sesame")
    assert translate(client).status_code == 401 and client.get("/health").status_code == 200
    assert "Authorization: Bearer KEY" in translate(client).json()["error"]
    for header, status in (("Bearer sesame", 200), ("Bearer sesam", 401), ("Basic %%%", 401), ("Basic", 401)):
        assert client.get("/v1/runs", headers={"Authorization": header}).status_code == status
    assert client.get("/v1/runs", auth=("user", "sesame")).status_code == 200
    assert client.get("/v1/runs").headers["www-authenticate"] == 'Basic realm="regard"'


def test_foreign_hosts_and_origins_are_refused(served_runs):
    app = create_app(served_runs)
    assert TestClient(app, base_url="http://evil.example").get("/v1/runs").status_code == 421
    response = TestClient(app, base_url=ADDRESS).get("/v1/runs", headers={"Origin": "http://evil.example"})
    assert response.status_code == 403 and "access-control-allow-origin" not in response.headers
    public = create_app(served_runs, host="0.0.0.0")
    assert TestClient(public, base_url="http://host.example").get("/health").status_code == 200


def test_a_server_that_shuts_down_refuses_new_requests(served_runs):
    app = create_app(served_runs)
    with TestClient(app, base_url=ADDRESS) as client:
        assert translate(client).status_code == 200
        app.state.policy.end()
        refused = translate(client)
        assert refused.status_code == 503 and refused.json()["error"] == "the server is shutting down"
        assert refused.headers["retry-after"] == "1"
    schedulers = app.state.service.schedulers.values()
    assert not any(thread.is_alive() for scheduler in schedulers for thread in scheduler._threads)


def test_the_explorer_has_a_choice_of_runs(client):
    page = client.get("/", params={"run": "other"}).text
    (choices,) = re.findall(r'"choices":(\[.*?\])', page)
    assert [
        (choice["name"], choice["shown"], choice["comparable"], choice["base"]) for choice in json.loads(choices)
    ] == [
        ("en-ko", False, True, "/api/en-ko"),
        ("other", True, True, "/api/other"),
    ]
    assert '"server":"/api/other"' in page
    inspection = client.post("/api/other/look", json={"text": "They sleep."}).json()
    tile = {"look": inspection["id"], "map": 0, "head": 0, "level": 0, "i": 0, "j": 0}
    assert client.get("/api/other/tile", params=tile).status_code == 200
    same = client.post("/v1/look", json={"run": "other", "input": "They sleep."}).json()
    assert same["maps"] == inspection["maps"]
    error = client.get("/", params={"run": "other", "text": " "})
    assert error.status_code == 400 and '<a href="/?run=en-ko">' in error.text
    assert client.get("/", params={"run": "<b>"}).status_code == 404


def test_runs_that_cannot_be_loaded_are_reported(tmp_path):
    runs, errors = open_runs([tmp_path / "none", tmp_path], engine="native", trust=False)
    assert runs == [] and list(errors) == [tmp_path / "none", tmp_path] and all(errors.values())
    with pytest.raises(ConfigError, match="no run to serve; name a run folder"):
        create_app([])


def test_runs_with_the_same_name_get_distinct_names(monkeypatch, loaded_run):
    monkeypatch.setattr("regard.serve.model_runtime.load", lambda *_, **__: loaded_run)
    runs, errors = open_runs([Path("a/run"), Path("b/run"), Path("c/run")], engine="native", trust=False)
    assert [served.name for served in runs] == ["run", "run-2", "run-3"] and not errors


@pytest.mark.parametrize("path", ["tile?map=0&head=0&level=0&i=0&j=0&look=", "step?map=m&head=0&look="])
def test_an_abandoned_tile_is_cancelled_and_never_computed_to_the_end(run, sentence, monkeypatch, path):
    started, ended = threading.Event(), threading.Event()
    app = create_explorer_app(run, sentence)

    def endless(target, text, *, interventions):
        started.set()
        try:
            for _ in range(3000):
                time.sleep(0.01)
                check_cancelled()
        finally:
            ended.set()

    with serving(app) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        request = urllib.request.Request(
            f"{url}api/look", json.dumps({"text": sentence}).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            inspection_id = json.load(response)["id"]
        monkeypatch.setattr("regard.serve.inspection_cache.InspectionCache.get", lambda *_: None)
        monkeypatch.setattr("regard.serve.inspections.collect", endless)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(f"GET /api/{path}{inspection_id} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert started.wait(10) and not ended.is_set()
        assert ended.wait(5)


def test_equal_ids_are_computed_once(subject, sentence, monkeypatch):
    session = Session(subject)
    inspection_id = session.inspect(sentence, Interventions())["id"]
    session._cache = InspectionCache()  # as after other inspections
    collected, original = [], inspections.collect

    def count(*args, **options):
        collected.append(args)
        time.sleep(0.05)
        return original(*args, **options)

    monkeypatch.setattr(inspections, "collect", count)
    with ThreadPoolExecutor(8) as threads:
        tiles = list(
            threads.map(lambda _: session.tile(inspection_id, map=0, head=0, level=0, index=(0, 0)), range(16))
        )
    assert len(collected) == 1 and len(set(tiles)) == 1


def test_inspections_in_memory_are_reported(served_runs, sentence):
    with TestClient(create_app(served_runs), base_url="http://127.0.0.1") as client:
        client.post("/v1/look", json={"run": "en-ko", "input": sentence})
        metrics = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert float(values["regard_inspections"]) == 1 and 1000 < float(values["regard_inspection_bytes"]) < 256e6


def test_an_inspection_of_one_run_is_unknown_to_another(served_runs, sentence):
    with TestClient(create_app(served_runs), base_url="http://127.0.0.1") as client:
        inspection_id = client.post("/api/en-ko/look", json={"text": sentence}).json()["id"]
        query = {"look": inspection_id, "map": 0, "head": 0, "level": 0, "i": 0, "j": 0}
        assert client.get("/api/en-ko/tile", params=query).status_code == 200
        response = client.get("/api/other/tile", params=query)
    assert response.status_code == 400 and response.json()["error"].startswith(f"no inspection '{inspection_id}'")


def test_health_reports_workers_that_do_not_return(served_runs, monkeypatch):
    app = create_app(served_runs)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/health").json()["status"] == "ok"
        monkeypatch.setattr("regard.serve.worker_watch.GRACE_S", -100.0)
        app.state.service.schedulers["en-ko"].watch.begin(time.monotonic())
        response = client.get("/health")
    assert (response.status_code, response.json()["status"]) == (503, "failing")
    assert response.json()["problems"] == ["en-ko: 1 worker threads do not return; restart the server"]


def test_a_panic_in_an_inspection_is_an_error_of_that_request(run, sentence, monkeypatch):
    app = create_explorer_app(run, sentence)
    explorer = TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)

    def panic(*_, **__):
        raise PanicException("regex")

    with monkeypatch.context() as patched:
        patched.setattr("regard.serve.inspections.collect", panic)
        assert explorer.post("/api/look", json={"text": sentence}).status_code == 500
    assert explorer.post("/api/look", json={"text": sentence}).status_code == 200


class PanicException(BaseException):  # the name that pyo3 uses
    """As raised by a Rust library."""


def test_every_response_has_security_headers(client):
    for response in (client.get("/"), client.get("/docs"), client.get("/health"), client.get("/nothing")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy
        assert policy.endswith("frame-ancestors 'none'")


def test_the_policy_names_every_inline_script_and_style(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    inline = re.findall(r'<script type="module">(.*?)</script>|<style>(.*?)</style>', page.text, re.DOTALL)
    assert len(inline) > 1
    for script, style in inline:
        digest = base64.b64encode(hashlib.sha256((script or style).encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
