"""The server: the same data as the page on disk, what-if by request, one clear line for every mistake."""

from __future__ import annotations

import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
import tiny_runs
from browser import opened, serving
from fastapi.testclient import TestClient

from regard.core.cancellation import Cancelled, check_cancelled
from regard.core.errors import RegardError
from regard.inspection.collect import collect
from regard.inspection.interventions import Interventions
from regard.inspection.json_format import step_to_json, to_json
from regard.inspection.map_tiles import pack_tile, pyramid, quantize
from regard.serve.app import create, explorer_app
from regard.serve.inspections import Session

OFF = ["decoder.layers.0.cross_attn", 1]


@pytest.fixture
def client(run, sentence):
    return TestClient(create(run, sentence), base_url="http://127.0.0.1:8765")


def plain(data):
    """What JSON makes of it: tuples become lists."""
    return json.loads(json.dumps(data))


def test_a_look_is_the_data_of_the_page(client, subject, sentence):
    found = client.post("/api/look", json={"text": sentence}).json()
    wanted = plain(to_json(collect(subject, sentence)))
    assert found["maps"] == wanted["maps"] and found["axes"] == wanted["axes"]
    assert found["outputs"] == wanted["outputs"] and found["server"] == "/api"


def test_what_if_by_request(client, subject, sentence):
    asked = {"text": sentence, "off": [OFF], "forbid": [["source", 1], ["read", 0]], "temperature": 2.5}
    found = client.post("/api/look", json=asked).json()
    wanted = plain(
        to_json(
            collect(subject, sentence, interventions=Interventions(((OFF[0], 1),), (("source", 1), ("read", 0)), 2.5))
        )
    )
    assert found["maps"] == wanted["maps"] and found["outputs"] == wanted["outputs"]
    again = client.post("/api/look", json={"text": sentence}).json()
    assert again["maps"] == plain(to_json(collect(subject, sentence)))["maps"]


def test_tiles_of_a_look_can_be_asked_for(client, subject, sentence):
    found = client.post("/api/look", json={"text": sentence}).json()
    asked = {"look": found["id"], "map": 0, "head": 1, "level": 0, "i": 0, "j": 0}
    tile = client.get("/api/tile", params=asked).json()["data"]
    assert tile == pack_tile(pyramid(quantize(collect(subject, sentence).maps[0].weights[1]))[0], 0, 0)
    wrong = client.get("/api/tile", params={**asked, "head": 99})
    assert wrong.status_code == 400 and "there is no tile map=0 head=99 level=0" in wrong.json()["error"]


def test_tiles_of_every_look_stay_to_be_had(subject, sentence):
    """Only the last few are kept; an earlier one is looked at again, with its changes."""
    session = Session(subject)
    cold = Interventions(temperature=0.5)
    name = session.inspect(sentence, cold)["id"]
    first = session.tile(name, map=0, head=0, level=0, index=(0, 0))
    others = [session.inspect(sentence, Interventions())["id"] for _ in range(5)]
    assert len(session._kept) == 4 and name not in session._kept
    assert session.tile(name, map=0, head=0, level=0, index=(0, 0)) == first
    assert session.tile(others[0], map=0, head=0, level=0, index=(0, 0)) != first
    for name in ("0", "99", "first"):
        with pytest.raises(RegardError, match=f"there is no look '{name}'; look again"):
            session.tile(name, map=0, head=0, level=0, index=(0, 0))


def test_the_numbers_of_a_head_can_be_asked_for(client, subject, sentence):
    found = client.post("/api/look", json={"text": sentence}).json()
    one = collect(subject, sentence).steps[1]
    asked = client.get("/api/step", params={"look": found["id"], "map": one.map, "head": one.head})
    assert asked.json() == plain(step_to_json(one))
    wrong = client.get("/api/step", params={"look": found["id"], "map": one.map, "head": 99})
    assert wrong.status_code == 400 and "there is no head 99 of map" in wrong.json()["error"]


def test_what_goes_wrong_in_a_browser_is_a_page(subject, sentence):
    without = tiny_runs.make_subject(subject.task, "seq2seq")
    for looked, path, status, said in [
        (without, "/", 400, "seq2seq has no attention to look at"),
        (subject, "/?text=%20", 400, "there is no sentence to look at; give some text"),
        (subject, "/?text=%3Cb%3E%20", 200, "&lt;b&gt;"),
        (subject, "/nowhere", 404, "there is no page &#x27;/nowhere&#x27; here"),
    ]:
        answer = TestClient(explorer_app(looked, sentence), base_url="http://127.0.0.1").get(path)
        assert answer.status_code == status and answer.headers["content-type"].startswith("text/html")
        assert said in answer.text or status == 200
        assert ('<form class="asking"' in answer.text) == (status != 200)
    nowhere = TestClient(explorer_app(subject, sentence), base_url="http://127.0.0.1").get("/api/nowhere")
    assert nowhere.status_code == 404 and nowhere.json() == {"error": "there is no page '/api/nowhere' here"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "a request is an object with a text"),
        ({"text": 5}, "a request is an object with a text"),
        ({"text": "a", "off": "all"}, "off='all' must be a list of [attention module, head]"),
        ({"text": "a", "off": [["x", "y"]]}, "must be a list of [attention module, head]"),
        ({"text": "a", "forbid": [1]}, "forbid=[1] must be a list of [axis, item]"),
        ({"text": "a", "forbid": [["source", True]]}, "forbid=[['source', True]] must be a list of [axis, item]"),
        ({"text": "a", "temperature": "hot"}, "temperature='hot' must be a number"),
        ({"text": "a", "temperature": 0}, "temperature=0.0 must lie between 0.01 and 100"),
        ({"text": " "}, "there is no sentence to look at"),
        ({"text": "word " * 300}, "the model was trained for at most 12"),
        ({"text": "They sleep.", "forbid": [["source", 99]]}, "cannot forbid item 99 of 'source': it has items 0 to 3"),
        (
            {"text": "They sleep.", "forbid": [["sauce", 0]]},
            "no axis 'sauce' to forbid an item of; did you mean 'source'",
        ),
    ],
)
def test_a_mistake_is_answered_with_one_line(client, body, said):
    answer = client.post("/api/look", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_the_first_page_shows_an_example_of_the_task(run):
    page = TestClient(create(run), base_url="http://localhost").get("/").text
    assert json.dumps(run.task.examples[0]) in page
    bare = SimpleNamespace(**{**vars(run), "task": SimpleNamespace(examples=())})
    with pytest.raises(RegardError, match=r"en-ko: its task has no example to show first; give an input"):
        create(bare)


@pytest.mark.parametrize(
    "content", [b"{", b'{"text": "\\ud800"}', b'{"text": "They sleep.", "temperature": 1' + b"0" * 400 + b"}"]
)
def test_what_no_machine_holds_is_400(client, content):
    answer = client.post("/api/look", content=content)
    assert answer.status_code == 400 and answer.json()["error"]


@pytest.mark.parametrize("place", [{"head": -1}, {"i": -1}, {"i": 10**30}, {"level": 10**30}, {"map": "x"}, {"j": 1.5}])
def test_a_tile_that_there_is_not_is_400(client, sentence, place):
    found = client.post("/api/look", json={"text": sentence}).json()
    asked = {"look": found["id"], "map": 0, "head": 1, "level": 0, "i": 0, "j": 0, **place}
    answer = client.get("/api/tile", params=asked)
    assert answer.status_code == 400 and "tile" in answer.json()["error"]


def test_only_requests_to_this_machine_are_answered(run, sentence):
    inside, outside = create(run, sentence), create(run, sentence, host="0.0.0.0")
    asked = {"url": "/api/look", "json": {"text": sentence}}
    assert TestClient(inside, base_url="http://evil.example").post(**asked).status_code == 421
    assert TestClient(outside, base_url="http://evil.example").post(**asked).status_code == 200


def test_a_look_that_takes_too_long_is_given_up(client, sentence, monkeypatch):
    monkeypatch.setattr("regard.serve.cancellation.LONGEST", -1.0)
    answer = client.post("/api/look", json={"text": sentence})
    assert answer.status_code == 503
    assert answer.json()["error"] == "it took longer than -1 seconds; give a shorter input"


def test_a_request_that_waits_for_its_turn_can_be_given_up(subject, sentence):
    session = Session(subject)

    def gone():
        raise Cancelled("the client has gone")

    with session._gate.exclusive(), pytest.raises(Cancelled, match="the client has gone"):
        session.inspect(sentence, Interventions(), gone)
    assert session.inspect(sentence, Interventions())["id"]


def test_a_request_that_is_aborted_stops_computing(run, sentence, monkeypatch):
    began, ended = threading.Event(), threading.Event()

    def endless(subject, text, *, changes):
        began.set()
        try:
            for _ in range(3000):
                time.sleep(0.01)
                check_cancelled()
        finally:
            ended.set()

    monkeypatch.setattr("regard.serve.inspections.collect", endless)
    body = json.dumps({"text": sentence}).encode()
    head = f"POST /api/look HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with serving(create(run, sentence)) as where:
        with socket.create_connection(("127.0.0.1", int(where.rstrip("/").rpartition(":")[2]))) as client:
            client.sendall(head + body)
            assert began.wait(10) and not ended.is_set()
        assert ended.wait(5)


def test_the_served_page_answers_what_if(browser, run, subject, sentence):
    name = OFF[0]
    usual = collect(subject, sentence)
    changed = collect(subject, sentence, interventions=Interventions(forbid=(("source", 2),)))
    with serving(create(run, sentence)) as address, opened(browser, address, offline=False) as page:
        assert page.locator(".spoken.output .spoken-text").inner_text() == usual.outputs[0].text
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
        assert "attends to nothing" in page.locator(".large .sum").inner_text()
        assert f"map={name}" in page.url
        page.get_by_role("button", name="Undo all").click()
        page.locator(".spoken.output .spoken-text", has_text=usual.outputs[0].text).wait_for()
        page.get_by_label("Axis").select_option("read")
        assert page.locator(".token-switch").all_inner_texts() == list(usual.axes["read"].labels)
        page.locator(".token-switch >> nth=0").click()
        page.locator(".token-switch[aria-pressed=true]").wait_for()


def test_the_served_page_takes_a_new_input_and_says_what_is_wrong(browser, run, sentence):
    app = create(run, sentence)
    with serving(app) as address, opened(browser, address, offline=False, expected="400 (Bad Request)") as page:
        page.get_by_label("Input").fill("<b>They</b> sleep.")
        page.get_by_role("button", name="Inspect", exact=True).click()
        page.locator(".spoken.input .spoken-text", has_text="<b>They</b> sleep.").wait_for()
        page.get_by_label("Input").fill("word " * 300)
        page.get_by_role("button", name="Inspect", exact=True).click()
        page.locator(".wrong").wait_for()
        assert "the model was trained for at most 12" in page.locator(".wrong").inner_text()
