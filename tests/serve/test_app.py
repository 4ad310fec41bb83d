"""The server: the same data as the page on disk, what-if by request, one clear line for every mistake."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
from browsing import opened
from fastapi.testclient import TestClient

from regard.core.errors import RegardError
from regard.inspection.collect import collect
from regard.inspection.format import to_json
from regard.inspection.pack import pack_tile, pyramid, quantise
from regard.inspection.whatif import Changes
from regard.serve.app import Session, create, read_request

OFF = ["decoder.layers.0.cross_attn", 1]


@pytest.fixture
def client(subject, sentence):
    return TestClient(create(subject, sentence))


def plain(data):
    """What JSON makes of it: tuples become lists."""
    return json.loads(json.dumps(data))


def test_a_look_is_the_data_of_the_page(client, subject, sentence):
    found = client.post("/api/look", json={"text": sentence}).json()
    wanted = plain(to_json(collect(subject, sentence)))
    assert found["maps"] == wanted["maps"] and found["axes"] == wanted["axes"]
    assert found["outputs"] == wanted["outputs"] and found["server"] == "/api"


def test_what_if_by_request(client, subject, sentence):
    asked = {"text": sentence, "off": [OFF], "forbid": [1], "temperature": 2.5}
    found = client.post("/api/look", json=asked).json()
    wanted = plain(to_json(collect(subject, sentence, changes=Changes(((OFF[0], 1),), (1,), 2.5))))
    assert found["maps"] == wanted["maps"] and found["outputs"] == wanted["outputs"]
    again = client.post("/api/look", json={"text": sentence}).json()
    assert again["maps"] == plain(to_json(collect(subject, sentence)))["maps"]


def test_tiles_of_a_look_can_be_asked_for(client, subject, sentence):
    found = client.post("/api/look", json={"text": sentence}).json()
    asked = {"look": found["id"], "map": 0, "head": 1, "level": 0, "i": 0, "j": 0}
    tile = client.get("/api/tile", params=asked).json()["data"]
    assert tile == pack_tile(pyramid(quantise(collect(subject, sentence).maps[0].weights[1]))[0], 0, 0)
    wrong = client.get("/api/tile", params={**asked, "head": 99})
    assert wrong.status_code == 400 and "there is no tile map=0 head=99 level=0" in wrong.json()["error"]


def test_only_the_last_looks_are_kept(subject, sentence):
    session = Session(subject)
    for _ in range(5):
        session.look(sentence, Changes())
    with pytest.raises(RegardError, match=r"look '1' is no longer kept; look again"):
        session.tile("1", map=0, head=0, level=0, place=(0, 0))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "a request is an object with a text"),
        ({"text": 5}, "a request is an object with a text"),
        ({"text": "a", "off": "all"}, "off='all' must be a list of [attention module, head]"),
        ({"text": "a", "off": [["x", "y"]]}, "must be a list of [attention module, head]"),
        ({"text": "a", "forbid": [True]}, "forbid=[True] must be a list of token numbers"),
        ({"text": "a", "temperature": "hot"}, "temperature='hot' must be a number"),
        ({"text": "a", "temperature": 0}, "temperature=0.0 must lie between 0.01 and 100"),
        ({"text": " "}, "there is no sentence to look at"),
        ({"text": "word " * 300}, "the model was trained for at most 64"),
        ({"text": "They sleep.", "forbid": [99]}, "cannot forbid token 99"),
    ],
)
def test_a_mistake_is_answered_with_one_line(client, body, said):
    answer = client.post("/api/look", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_what_is_no_json_is_refused(client):
    assert client.post("/api/look", content=b"{").status_code == 422
    with pytest.raises(RegardError, match="a request is an object with a text"):
        read_request(None)


@contextmanager
def serving(app):
    """The application on a free port of this machine, in a thread."""
    import uvicorn

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(10)


def test_the_served_page_answers_what_if(browser, subject, sentence):
    name = OFF[0]
    usual = collect(subject, sentence)
    changed = collect(subject, sentence, changes=Changes(forbid=(2,)))
    with serving(create(subject, sentence)) as address, opened(browser, address, offline=False) as page:
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
        page.get_by_role("button", name="Switch off Cross-attention, layer 1, head 2").click()
        page.locator(".outcome").wait_for()
        page.get_by_role("button", name="Cross-attention, layer 1, head 2", exact=True).click()
        assert "may look at nothing" in page.locator(".large .sum").inner_text()
        assert f"map={name}" in page.url


def test_the_served_page_takes_a_new_sentence_and_says_what_is_wrong(browser, subject, sentence):
    app = create(subject, sentence)
    with serving(app) as address, opened(browser, address, offline=False, expected="400 (Bad Request)") as page:
        page.get_by_label("Sentence").fill("<b>They</b> sleep.")
        page.get_by_role("button", name="Look", exact=True).click()
        page.locator(".spoken.input .spoken-text", has_text="<b>They</b> sleep.").wait_for()
        page.get_by_label("Sentence").fill("word " * 300)
        page.get_by_role("button", name="Look", exact=True).click()
        page.locator(".wrong").wait_for()
        assert "the model was trained for at most 64" in page.locator(".wrong").inner_text()
