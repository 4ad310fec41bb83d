"""Runs as a service: several in one process, requests and streams, what it says of itself, and whom it refuses."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path

import pytest
import torch

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from fastapi.testclient import TestClient

from regard.api.run import Run
from regard.core.errors import ConfigError
from regard.core.task import Prediction
from regard.decoding.strategies import greedy
from regard.decoding.strategy import DecodingStrategy
from regard.serve.model_runtime import ServedRun, open_runs
from regard.serve.service import create
from regard.training.load_run import LoadedRun

TEXTS = ["They sleep.", "Please buy two apples."]
HOME = "http://127.0.0.1:8000"


def client_of(hosted, **settings):
    return TestClient(create(hosted, **settings), base_url=HOME, raise_server_exceptions=False)


@pytest.fixture
def client(hosted):
    return client_of(hosted)


def ask(client, **body):
    return client.post("/v1/translate", json={"run": "en-ko", "inputs": TEXTS, **body})


def test_a_request_is_answered_as_the_run_answers(client, served):
    found = ask(client).json()
    assert found["run"] == "en-ko" and found["verb"] == "translate"
    assert [rows[0]["text"] for rows in found["answers"]] == served.translate(TEXTS)
    wide = ask(client, options={"nbest": 2}, decoding={"name": "beam", "width": 3, "no_repeat": 1}).json()["answers"]
    wanted = served.answer(TEXTS, nbest=2, decoding={"name": "beam", "width": 3, "no_repeat": 1})
    assert [[row["text"] for row in rows] for rows in wide] == [[each.text for each in some] for some in wanted]


def test_many_clients_at_once_each_get_their_own(client, served):
    wanted = {text: served.translate([text])[0] for text in TEXTS}
    wrong = []

    def one(number):
        text = TEXTS[number % 2]
        found = ask(client, inputs=[text], run=("en-ko", "other")[number // 2 % 2]).json()
        if found["answers"][0][0]["text"] != wanted[text]:
            wrong.append(found)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_a_stream_has_what_is_decoded_so_far_and_then_the_answer(client, served):
    answer = ask(client, inputs=TEXTS[:1], stream=True)
    events = [part.split("\ndata: ") for part in answer.text.strip().split("\n\n")]
    tables = [json.loads(data) for _, data in events]
    assert [name for name, _ in events] == [*["event: token"] * (len(events) - 1), "event: answers"]
    best = tables[-1]["answers"][0][0]["text"]
    assert best == served.translate(TEXTS[:1])[0] and len(events) > 1 and tables[-2]["text"] == best
    assert answer.headers["cache-control"] == "no-store"
    wrong = ask(client, inputs=["word " * 300], stream=True).text
    assert wrong.startswith("event: error\n") and "the model was trained for at most" in wrong


def test_it_says_what_it_is(client, hosted):
    assert client.get("/health").json()["runs"] == ["en-ko", "other"]
    first, _ = client.get("/v1/runs").json()["runs"]
    assert first["verbs"] == ["translate"] and first["options"]["properties"]["nbest"]["maximum"] == 32
    assert ask(client, inputs=first["example"]["inputs"]).status_code == 200
    ask(client, inputs=[])
    client.post("/v1/dance", json={})
    told = client.get("/metrics").text
    assert 'regard_requests_total{run="en-ko",status="200",verb="translate"} 1.0' in told
    assert 'regard_requests_total{run="",status="400",verb="translate"} 1.0' in told
    assert 'status="404",verb=""' in told and 'regard_waiting_inputs{run="other"} 0.0' in told
    docs = client.get("/docs").text
    here = str(client.base_url).rstrip("/")
    assert f"curl {here}/v1/translate " in docs
    assert "http" not in docs.replace(here, "").replace("http-equiv", "")  # nothing from elsewhere
    assert "POST /v1/translate" in docs and "how many translations of each text" in docs


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/translate", {"inputs": ["a"]}, 404, "several runs can; say which: run is one of en-ko, other"),
        (
            "/v1/translate",
            {"inputs": ["a"], "run": "none"},
            404,
            "no run 'none' here that can translate; known: en-ko, other",
        ),
        (
            "/v1/translate",
            {"inputs": [1], "run": "other"},
            400,
            "input 1 is 1, neither a text nor a file; write a text as",
        ),
        ("/v1/dance", {"inputs": ["a"]}, 404, "no run here can dance; known: translate"),
        ("/v1/translate", [], 400, 'a request is an object: {"inputs": ["…"]}'),
        ("/v1/translate", {"text": "a"}, 400, "a request has no 'text'"),
        ("/v1/translate", {"run": "other", "inputs": "a"}, 400, "inputs is a list of texts or files with something in"),
        ("/v1/translate", {"run": "other", "inputs": ["a"] * 65}, 400, "65 inputs; a request has at most 64"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "options": 1}, 400, "options is an object"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "files": "x"}, 400, "files is a list of suffixes"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "stream": 1}, 400, "stream is true or false"),
        ("/v1/translate", {"run": "other", "inputs": ["a", "b"], "stream": True}, 400, "stream is for one input"),
        ("/v1/translate", {"run": "other", "inputs": [{"file": "AA=="}]}, 400, "input 1 is a text for this run"),
        ("/v1/translate", {"run": "other", "inputs": ["a" * 100_001]}, 400, "input 1 has 100,001 letters"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "decoding": 5}, 400, "decoding is the name of a decoder"),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "decoding": "os.path"}, 400, "no decoder 'os.path'"),
        (
            "/v1/translate",
            {"run": "other", "inputs": ["a"] * 20, "decoding": {"name": "beam", "width": 32}},
            400,
            "20 inputs with a search 32 wide; send 16 at most at a time",
        ),
        ("/v1/translate", {"run": "other", "inputs": ["a"], "files": [".exe"]}, 400, "cannot be written as .exe"),
        ("/v1/look", {"text": "a"}, 400, "a look has an input"),
        ("/v1/look", {"input": "a"}, 404, "several runs can; say which"),
        ("/v1/look", {"input": "a", "temprature": 3}, 400, "a look has no 'temprature'; did you mean 'temperature'?"),
        ("/api/none/look", {"text": "a"}, 404, "there is no run 'none' here; there are: en-ko, other"),
    ],
)
def test_a_mistake_is_one_line(client, path, body, status, said):
    answer = client.post(path, json=body)
    assert answer.status_code == status and said in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_a_number_that_is_no_token_is_one_line(client):
    for decoding, name in (({"forbid": [10**9]}, "forbid"), ({"name": "prefix", "tokens": [10**9]}, "tokens")):
        answer = ask(client, decoding=decoding)
        assert answer.status_code == 400
        assert f"{name} holds 1000000000, but the vocabulary has" in answer.json()["error"]


def test_what_is_not_json_or_not_for_this_page_is_refused(client):
    for content in (b"", b"\xff\xfe", b"[" * 100_000, b'{"inputs": [1e999]}', b'{"inputs": ["\\ud800"]}', b"\0"):
        assert client.post("/v1/translate", content=content).status_code == 400
    wrong = client.get("/v1/translate")
    assert wrong.status_code == 405 and wrong.json()["error"] == "GET is not for this page; use POST"


def test_a_mistake_of_ours_shows_nothing_of_the_code(hosted, monkeypatch):
    def broken(*_):
        raise RuntimeError("line 5 of secret.py")

    monkeypatch.setattr(hosted[0], "answer", broken)
    client = client_of(hosted)
    answer = ask(client)
    assert answer.status_code == 500 and "secret" not in answer.text
    assert answer.json()["error"].startswith("something went wrong in the server, which is not your mistake")
    assert ask(client, run="other").status_code == 200


def test_an_endless_score_is_none(hosted, monkeypatch):
    monkeypatch.setattr(hosted[0], "answer", lambda inputs, *_: [[Prediction("x", -float("inf"))] for _ in inputs])
    assert ask(client_of(hosted)).json()["answers"][0][0] == {"text": "x", "score": None, "rank": None}


def test_files_of_answers_come_as_base64_unless_they_are_too_large(hosted, monkeypatch):
    answer = Prediction("x", files={".bin": lambda: b"content"})
    monkeypatch.setattr(hosted[0], "answer", lambda inputs, *_: [[answer] for _ in inputs])
    client = client_of(hosted)
    files = ask(client, files=[".bin"]).json()["answers"][0][0]["files"]
    assert base64.b64decode(files[".bin"]) == b"content"
    monkeypatch.setattr("regard.serve.responses.LARGEST", 5)
    assert "the files of these answers have more than 5 bytes" in ask(client, files=[".bin"]).json()["error"]


def test_a_request_that_takes_too_long_is_given_up(hosted, monkeypatch):
    monkeypatch.setattr("regard.serve.cancellation.LONGEST", 0.3)
    monkeypatch.setattr(hosted[0], "answer", lambda *_: threading.Event().wait(2))
    client = client_of(hosted)
    answer = ask(client)
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    assert answer.json()["error"] == "it took longer than 0.3 seconds; ask for less at a time"
    assert '"status": 503' in ask(client, inputs=TEXTS[:1], stream=True).text


def test_a_full_line_is_429_with_when_to_come_again(hosted):
    client = client_of(hosted)
    client.app.state.service.lines["en-ko"]._queue = 1
    answer = ask(client)
    assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
    assert "inputs wait for an answer; come again in 1 s" in answer.json()["error"]


def test_only_who_has_the_key_is_answered(hosted):
    client = client_of(hosted, key="sesame")
    assert ask(client).status_code == 401 and client.get("/health").status_code == 200
    assert "Authorization: Bearer KEY" in ask(client).json()["error"]
    for given, status in (("Bearer sesame", 200), ("Bearer sesam", 401), ("Basic %%%", 401), ("Basic", 401)):
        answer = client.get("/v1/runs", headers={"Authorization": given})
        assert answer.status_code == status
    assert client.get("/v1/runs", auth=("anybody", "sesame")).status_code == 200
    assert client.get("/v1/runs").headers["www-authenticate"] == 'Basic realm="regard"'


def test_other_machines_pages_and_names_are_refused(hosted):
    app = create(hosted)
    assert TestClient(app, base_url="http://evil.example").get("/v1/runs").status_code == 421
    crossed = TestClient(app, base_url=HOME).get("/v1/runs", headers={"Origin": "http://evil.example"})
    assert crossed.status_code == 403 and "access-control-allow-origin" not in crossed.headers
    assert TestClient(create(hosted, host="0.0.0.0"), base_url="http://host.example").get("/health").status_code == 200


def test_a_server_that_ends_answers_what_is_under_way_and_refuses_the_rest(hosted):
    app = create(hosted)
    with TestClient(app, base_url=HOME) as client:
        assert ask(client).status_code == 200
        app.state.allowed.end()
        refused = ask(client)
        assert refused.status_code == 503 and refused.json()["error"] == "the server has been told to end"
        assert refused.headers["retry-after"] == "1"
    assert not any(thread.is_alive() for line in app.state.service.lines.values() for thread in line._threads)


def test_the_explorer_has_a_choice_of_runs(client, hosted, monkeypatch):
    page = client.get("/", params={"run": "other"}).text
    assert '"choices":[{"name":"en-ko","shown":false},{"name":"other","shown":true}]' in page
    assert '"server":"/api/other"' in page
    found = client.post("/api/other/look", json={"text": "They sleep."}).json()
    tile = {"look": found["id"], "map": 0, "head": 0, "level": 0, "i": 0, "j": 0}
    assert client.get("/api/other/tile", params=tile).status_code == 200
    same = client.post("/v1/look", json={"run": "other", "input": "They sleep."}).json()
    assert same["maps"] == found["maps"]
    wrong = client.get("/", params={"run": "other", "text": " "})
    assert wrong.status_code == 400 and '<a href="/?run=en-ko">' in wrong.text
    assert client.get("/", params={"run": "<b>"}).status_code == 404


def test_a_damaged_run_is_named_and_the_others_are_served(tmp_path):
    hosted, wrong = open_runs([tmp_path / "none", tmp_path], engine="native", trust=False)
    assert hosted == [] and list(wrong) == [tmp_path / "none", tmp_path] and all(wrong.values())
    with pytest.raises(ConfigError, match="there is no run to serve; name the folder of one"):
        create([])


def test_runs_of_one_name_are_told_apart(monkeypatch, served):
    monkeypatch.setattr("regard.serve.model_runtime.load", lambda *_, **__: served)
    hosted, wrong = open_runs([Path("a/run"), Path("b/run"), Path("c/run")], engine="native", trust=False)
    assert [each.name for each in hosted] == ["run", "run-2", "run-3"] and not wrong


def test_a_run_that_does_not_search_takes_no_decoding(served):
    from dataclasses import replace

    bare = ServedRun("bare", served)
    assert bare.parse_decoding("beam").name == "beam" and bare.parse_decoding(None) is served.recipe.decoding
    assert bare.parse_decoding({"no_repeat": 2}) == DecodingStrategy("greedy", greedy.Config(no_repeat_ngram_size=2))
    bare.run = Run(LoadedRun(served.folder, replace(served.recipe, decoding=None), served.task, torch.nn.Identity()))
    with pytest.raises(ConfigError, match="bare does not search for its answers; leave decoding out"):
        bare.parse_decoding("beam")
