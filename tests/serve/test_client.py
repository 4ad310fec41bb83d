"""The client in Python: the verbs of a loaded run, on a server."""

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
from regard.serve.client import Client, ServerError, _answer
from regard.serve.service import create

TEXTS = ["They sleep.", "Please buy two apples."]


def test_it_answers_as_the_run_does(served, hosted):
    with serving(create(hosted, key="sesame")) as url:
        client = regard.Client(url, "en-ko", key="sesame")
        assert repr(client) == f"Client({url.rstrip('/')!r}: en-ko, transformer for translation)"
        assert client.translate(TEXTS) == served.translate(TEXTS) and client.predict([]) == []
        (found,), (wanted,) = (each.predict(TEXTS[:1], nbest=2, decoding="beam") for each in (client, served))
        assert [(answer.text, answer.data) for answer in found] == [(answer.text, answer.data) for answer in wanted]
        assert list(client.stream(TEXTS[0]))[-1] == served.translate(TEXTS[:1])[0]
        assert client.inspect(TEXTS[0])["maps"]
        with pytest.raises(ConfigError, match=r"en-ko was trained for translation, whose verb is translate; run.trans"):
            client.classify(TEXTS)
        with pytest.raises(ConfigError, match=r"translate takes a list of texts; write translate\(\[text\]\)"):
            client.translate(TEXTS[0])
        with pytest.raises(ServerError, match="options: no setting 'width'") as wrong:
            client.predict(TEXTS, width=5)
        assert (wrong.value.status, wrong.value.seconds) == (400, 0)
        with pytest.raises(ServerError, match="the model was trained for at most"):
            list(client.stream("word " * 300))
        with pytest.raises(
            ConfigError, match=r"it serves several runs; name one of them: Client\(url, run=…\): en-ko, "
        ):
            regard.Client(url, key="sesame")
        with pytest.raises(ConfigError, match="it has no run 'none'; name one of them"):
            regard.Client(url, "none", key="sesame")
        with pytest.raises(ServerError, match="this server wants a key") as wrong:
            regard.Client(url, "en-ko")
        assert wrong.value.status == 401
    with pytest.raises(ServerError, match=r"no server answers .* is it started"):
        client.translate(TEXTS)
    with pytest.raises(
        ConfigError, match=r"'nowhere' is no address of a server; give one such as http://127.0.0.1:8000"
    ):
        regard.Client("nowhere")
    with pytest.raises(ConfigError, match="a key has ASCII letters, digits and signs only; this one has others"):
        regard.Client("http://127.0.0.1:1", key="비밀")


@contextmanager
def saying(content):
    """Something that answers every request by these bytes."""

    def answer(listening):
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def response(body, more=0):
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body) + more}\r\n\r\n".encode() + body


@pytest.mark.parametrize("body", [b"<html>", b'{"a": 1}', b"[]", b"null", b"\xff"])
def test_another_server_at_that_address_is_told_in_one_line(body):
    with saying(response(body)) as url, pytest.raises(ServerError) as wrong:
        regard.Client(url)
    assert str(wrong.value) == f"{url}: what answers there is no server of regard; is the port right?"


def test_a_server_that_goes_in_the_middle_is_told_in_one_line():
    with saying(response(b'{"runs": []}', more=9)) as url, pytest.raises(ServerError, match="before the answer was wh"):
        regard.Client(url)
    with saying(b"SSH-2.0-other\r\n") as url, pytest.raises(ServerError, match=r"no server answers \(SSH-2.0-other\)"):
        regard.Client(url)
    with pytest.raises(ServerError, match=r"http://\[::1: no server answers \(Invalid IPv6 URL\)"):
        regard.Client("http://[::1")
    client = Client.__new__(Client)
    client._url, client._key, client._timeout = "http://127.0.0.1", "", 20
    client.name, client.verb, client.about = "en", "translate", {"opens": [], "options": {"properties": {}}}
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nevent: tok"
    with saying(chunked) as client._url, pytest.raises(ServerError, match="before the answer was whole"):
        list(client.stream("a"))


@pytest.fixture
def pictures():
    """A client of a run whose inputs are files, without a server."""
    client = object.__new__(Client)
    client._url, client._key, client._timeout, client.verb = "http://127.0.0.1:1", "", 1.0, "caption"
    upload = {"anyOf": [{"$ref": "#/components/schemas/Upload"}, {"type": "null"}]}
    client.about = {"opens": [".png"], "options": {"properties": {"prompt": upload, "count": {}}}}
    client.name = "run"
    return client


def test_files_are_sent_whole(pictures, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"content")
    sent = {"file": base64.b64encode(b"content").decode(), "name": "a.png"}
    assert pictures._sent(str(path)) == pictures._sent(path) == sent
    assert pictures._sent("no such.png") == "no such.png" and pictures._sent("a\n.png") == "a\n.png"
    asked = pictures._asked([path], {"prompt": str(path), "count": 2, "files": [".png"], "decoding": "beam"})
    assert asked["options"] == {"prompt": sent, "count": 2} and asked["inputs"] == [sent]
    assert asked["files"] == [".png"] and asked["decoding"] == "beam"
    with pytest.raises(
        ConfigError, match=r"none.png: cannot be read \(No such file or directory\), so it cannot be sent"
    ):
        pictures._sent(Path("none.png"))


def test_a_stream_that_breaks_off_is_an_error(pictures, monkeypatch):
    """Half a text is not the answer."""
    events = [b"event: token\n", b'data: {"text": "Once", "tokens": 1}\n', b"\n"]
    monkeypatch.setattr(Client, "_open", lambda *_: iter(events))
    told = pictures.stream("a")
    assert next(told) == "Once"
    with pytest.raises(ServerError, match="the server went before the answer was whole"):
        next(told)


def test_what_cannot_be_sent_is_one_line(pictures):
    for given, options, line in (
        ([b"x"], {}, "what is asked cannot be sent as JSON: Object of type bytes is not JSON serializable"),
        (["a"], {"count": {1}}, "what is asked cannot be sent as JSON: Object of type set is not JSON serializable"),
    ):
        with pytest.raises(ConfigError, match=line):
            pictures.answer(given, **options)


def test_an_answer_is_what_the_server_sent():
    sent = {"text": "a", "score": -1.0, "rank": None, "labels": ["b"], "remarks": ["c"], "files": {".bin": "AAAA"}}
    answer = _answer(sent)
    assert (answer.text, answer.score, answer.remarks, dict(answer.data)) == ("a", -1.0, ("c",), {"labels": ["b"]})
    assert answer.render(".bin") == bytes(3)
