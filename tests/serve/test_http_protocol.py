"""Head and body of an answer leave in one write; nothing that is kept is lost."""

from __future__ import annotations

import asyncio
import http.client
import json
import select
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
from regard.serve import http_protocol
from regard.serve.http_protocol import BufferedTransport
from regard.serve.server import listen

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Transport:
    def __init__(self):
        self.written, self.closed = [], False

    def write(self, data):
        assert not self.closed
        self.written.append(data)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


class Loop:
    def __init__(self):
        self.soon = []

    def call_soon(self, call):
        self.soon.append(call)


def test_a_head_waits_for_its_body():
    transport, loop = Transport(), Loop()
    joined = BufferedTransport(transport, loop)
    joined.write(HEAD)
    joined.write(b"{}")
    joined.write(b"more")
    for call in loop.soon:
        call()
    assert transport.written == [HEAD + b"{}", b"more"] and not joined.is_closing()


def test_a_head_alone_goes_with_the_next_turn_or_before_the_end():
    transport, loop = Transport(), Loop()
    joined = BufferedTransport(transport, loop)
    joined.write(HEAD)
    assert transport.written == []
    loop.soon.pop()()
    assert transport.written == [HEAD]
    joined.write(HEAD)
    joined.close()
    assert transport.written == [HEAD, HEAD] and transport.closed
    loop.soon.pop()()  # and not once more


@contextmanager
def running(app):
    """A server over our own protocol -> its port, and the connections that are open."""
    import uvicorn

    with listen("127.0.0.1", 0) as taken:
        settings = uvicorn.Config(app, http="regard.serve.http_protocol:Protocol", lifespan="off", log_level="warning")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        try:
            yield taken.getsockname()[1], server.server_state.connections
        finally:
            server.should_exit = True
            thread.join(20)


async def in_parts(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"a", b"b", b""):
        await send({"type": "http.response.body", "body": part, "more_body": bool(part)})
        await asyncio.sleep(0.01)


def test_a_server_answers_by_it_whole_and_in_parts():
    with running(in_parts) as (port, _), closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as asked:
        for _ in range(3):  # over one connection
            asked.request("POST", "/", b"{}")
            assert asked.getresponse().read() == b"ab"


def said(port, content):
    """All that a server says until it ends the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(content)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 600,
        b"GET /" + b"a" * 600,
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 600,
    ],
    ids=["header", "address", "trailer"],
)
def test_headers_that_do_not_end_are_refused_in_one_line(monkeypatch, content):
    async def waits(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    monkeypatch.setattr(http_protocol, "LONGEST", 1000)
    with running(waits) as (port, _), socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(content)
        while not select.select([connection], [], [], 0.1)[0]:
            connection.sendall(b"a" * 600)  # what comes with the end of the headers is not counted
        answer = connection.recv(65536)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body) == {"error": "the headers of a request have at most 1,000 bytes"}


def test_a_body_may_be_longer_than_headers(monkeypatch):
    async def counts(scope, receive, send):
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": str(size).encode()})

    monkeypatch.setattr(http_protocol, "LONGEST", 1000)
    with running(counts) as (port, _):
        head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500000\r\n\r\n"
        assert b"500000" in said(port, head + b"a" * 500_000)


def test_a_connection_on_which_nothing_moves_ends(monkeypatch):
    async def slow(scope, receive, send):
        await asyncio.sleep(1.5)
        await in_parts(scope, receive, send)

    monkeypatch.setattr(http_protocol, "STILL", 0.4)
    whole = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with running(slow) as (port, _):
        assert said(port, b"") == said(port, b"GET / HT") == b""
        assert said(port, whole).endswith(b"0\r\n\r\n")  # what is being answered is waited for
        assert said(port, whole + b"GET / HT").count(b"HTTP/1.1 200") == 1


def test_what_came_while_the_server_was_busy_is_read_before_a_connection_ends():
    with running(in_parts) as (port, connections), socket.create_connection(("127.0.0.1", port), timeout=120) as asks:
        while not connections:
            time.sleep(0.01)
        (one,) = connections
        one.loop.call_soon_threadsafe(one._look)  # late, and before anything that has come since is read
        asks.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert b"".join(iter(lambda: asks.recv(65536), b"")).endswith(b"0\r\n\r\n")


def test_who_does_not_read_an_answer_is_left(monkeypatch):
    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(50_000_000)})

    monkeypatch.setattr(http_protocol, "STILL", 0.5)
    with running(large) as (port, connections), socket.create_connection(("127.0.0.1", port), timeout=120) as reads:
        reads.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert reads.recv(8) == b"HTTP/1.1"
        ends = time.monotonic() + 60
        while connections and time.monotonic() < ends:
            time.sleep(0.02)
        assert not connections
