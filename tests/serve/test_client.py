"""The Python client: the verbs of a loaded run, on a server."""

from __future__ import annotations

import base64
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from browser import serving

import regard
from regard.core.errors import ConfigError
from regard.serve.app import create_app
from regard.serve.client import Client, ServerError, _to_prediction

TEXTS = ["They sleep.", "Please buy two apples."]


def test_it_predicts_as_the_run_does(loaded_run, served_runs):
    with serving(create_app(served_runs, key="sesame")) as url:
        client = regard.Client(url, "en-ko", key="sesame")
        assert repr(client) == f"Client({url.rstrip('/')!r}: en-ko, transformer for translation)"
        assert client.translate(TEXTS) == loaded_run.translate(TEXTS) and client.predict([]) == []
        (row,), (expected,) = (run.predict(TEXTS[:1], n=2, decoding="beam") for run in (client, loaded_run))
        assert [(prediction.text, prediction.data) for prediction in row] == [
            (prediction.text, prediction.data) for prediction in expected
        ]
        assert list(client.stream(TEXTS[0]))[-1] == loaded_run.translate(TEXTS[:1])[0]
        assert client.look(TEXTS[0])["maps"]
        assert client.look(TEXTS[0], hidden_items=[["source", 0]])["maps"]
        with pytest.raises(ConfigError, match=r"en-ko .*translat"):
            client.classify(TEXTS)
        with pytest.raises(ConfigError, match=r"translate\(\[text\]\)"):
            client.translate(TEXTS[0])
        with pytest.raises(ServerError, match="options: no setting 'width'") as error:
            client.predict(TEXTS, width=5)
        assert (error.value.status, error.value.seconds) == (422, 0)
        with pytest.raises(ServerError, match="at most"):
            list(client.stream("word " * 300))
        with pytest.raises(ConfigError, match=r"it serves several runs; choose one with Client\(url, run=…\): en-ko, "):
            regard.Client(url, key="sesame")
        with pytest.raises(ConfigError, match="it has no run 'none'; choose one"):
            regard.Client(url, "none", key="sesame")
        with pytest.raises(ServerError, match="this server requires a key") as error:
            regard.Client(url, "en-ko")
        assert error.value.status == 401
    with pytest.raises(ServerError, match=r"no server answers .* start one: regard serve RUN"):
        client.translate(TEXTS)
    with pytest.raises(
        ConfigError, match=r"'nowhere' is not the address of a server; use one such as http://127.0.0.1:8000"
    ):
        regard.Client("nowhere")
    with pytest.raises(ConfigError, match="key: must contain printable ASCII characters only"):
        regard.Client("http://127.0.0.1:1", key="비밀")


@contextmanager
def fake_server(content):
    """Run a server that answers every request with these bytes -> its URL."""

    def respond(listening):
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=respond, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def response(body, missing=0):
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body) + missing}\r\n\r\n".encode() + body


@pytest.mark.parametrize("body", [b"<html>", b'{"a": 1}', b"[]", b"null", b"\xff"])
def test_a_response_of_another_server_is_a_one_line_error(body):
    with fake_server(response(body)) as url, pytest.raises(ServerError) as error:
        regard.Client(url)
    assert str(error.value) == f"{url}: the response is not from a regard server; check the port"


def test_a_closed_connection_is_a_one_line_error():
    with (
        fake_server(response(b'{"runs": []}', missing=9)) as url,
        pytest.raises(ServerError, match="before the response was"),
    ):
        regard.Client(url)
    with (
        fake_server(b"SSH-2.0-other\r\n") as url,
        pytest.raises(ServerError, match=r"no server answers \(SSH-2.0-other\)"),
    ):
        regard.Client(url)
    with pytest.raises(ServerError, match=r"http://\[::1: no server answers \(Invalid IPv6 URL\)"):
        regard.Client("http://[::1")
    client = Client.__new__(Client)
    client._url, client._key, client._timeout = "http://127.0.0.1", "", 20
    client.name, client.verb, client.about = "en", "translate", {"opens": [], "options": {"properties": {}}}
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nevent: tok"
    with fake_server(chunked) as client._url, pytest.raises(ServerError, match="before the response was complete"):
        list(client.stream("a"))


@pytest.fixture
def image_client():
    """A client of a run whose inputs are files, without a server."""
    client = object.__new__(Client)
    client._url, client._key, client._timeout, client.verb = "http://127.0.0.1:1", "", 1.0, "caption"
    upload = {"anyOf": [{"$ref": "#/components/schemas/Upload"}, {"type": "null"}]}
    client.about = {"opens": [".png"], "options": {"properties": {"prompt": upload, "count": {}}}}
    client.name = "run"
    return client


def test_the_content_of_files_is_sent(image_client, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"content")
    encoded = {"file": base64.b64encode(b"content").decode(), "name": "a.png"}
    assert image_client._encode_input(str(path)) == image_client._encode_input(path) == encoded
    assert (
        image_client._encode_input("no such.png") == "no such.png"
        and image_client._encode_input("a\n.png") == "a\n.png"
    )
    body = image_client._predict_body([path], {"prompt": str(path), "count": 2, "files": [".png"], "decoding": "beam"})
    assert body["options"] == {"prompt": encoded, "count": 2} and body["inputs"] == [encoded]
    assert body["files"] == [".png"] and body["decoding"] == "beam"
    with pytest.raises(
        ConfigError, match=r"none.png: cannot be read \(No such file or directory\), so it cannot be sent"
    ):
        image_client._encode_input(Path("none.png"))


def test_an_incomplete_stream_is_an_error(image_client, monkeypatch):
    events = [b"event: partial\n", b'data: {"text": "Once", "tokens": 1}\n', b"\n"]
    monkeypatch.setattr(Client, "_open", lambda *_: iter(events))
    texts = image_client.stream("a")
    assert next(texts) == "Once"
    with pytest.raises(ServerError, match="the connection was closed before the response was complete"):
        next(texts)


def test_values_that_are_not_json_are_a_one_line_error(image_client):
    for inputs, options, message in (
        ([b"x"], {}, "the request cannot be sent as JSON: Object of type bytes is not JSON serializable"),
        (["a"], {"count": {1}}, "the request cannot be sent as JSON: Object of type set is not JSON serializable"),
    ):
        with pytest.raises(ConfigError, match=message):
            image_client.predict(inputs, **options)


def test_a_prediction_has_the_fields_of_the_response():
    numbers = {"probability": 0.5, "score": -1.0, "ranking_score": None}
    fields = {"text": "a", **numbers, "labels": ["b"], "remarks": ["c"], "files": {".bin": "AAAA"}}
    prediction = _to_prediction(fields)
    assert (prediction.text, prediction.score, prediction.remarks, dict(prediction.data)) == (
        "a",
        -1.0,
        ("c",),
        {"labels": ["b"]},
    )
    assert prediction.render(".bin") == bytes(3)
