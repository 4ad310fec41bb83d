"""The HTTP protocol: head and body in one write, limited headers, idle connections closed."""

from __future__ import annotations

import asyncio
import http.client
import json
import select
import socket
import threading
import time
from contextlib import closing, contextmanager
from types import SimpleNamespace

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


def test_a_head_is_written_with_its_body():
    transport, loop = Transport(), Loop()
    buffered = BufferedTransport(transport, loop)
    buffered.write(HEAD)
    buffered.write(b"{}")
    buffered.write(b"more")
    for call in loop.soon:
        call()
    assert transport.written == [HEAD + b"{}", b"more"] and not buffered.is_closing()


def test_a_head_alone_is_written_in_the_next_iteration_or_on_close():
    transport, loop = Transport(), Loop()
    buffered = BufferedTransport(transport, loop)
    buffered.write(HEAD)
    assert transport.written == []
    loop.soon.pop()()
    assert transport.written == [HEAD]
    buffered.write(HEAD)
    buffered.close()
    assert transport.written == [HEAD, HEAD] and transport.closed
    loop.soon.pop()()  # not written twice


@contextmanager
def running(app):
    """Run a server with the protocol -> its port, and its open connections."""
    import uvicorn

    with listen("127.0.0.1", 0) as server_socket:
        config = uvicorn.Config(app, http="regard.serve.http_protocol:Protocol", lifespan="off", log_level="warning")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [server_socket]}, daemon=True)
        thread.start()
        try:
            yield server_socket.getsockname()[1], server.server_state.connections
        finally:
            server.should_exit = True
            thread.join(20)


async def in_parts(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"a", b"b", b""):
        await send({"type": "http.response.body", "body": part, "more_body": bool(part)})
        await asyncio.sleep(0.01)


def test_responses_in_parts_over_one_connection():
    with running(in_parts) as (port, _), closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as client:
        for _ in range(3):
            client.request("POST", "/", b"{}")
            assert client.getresponse().read() == b"ab"


def exchange(port, content):
    """Send bytes -> all bytes that the server sends until it closes the connection."""
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
def test_endless_headers_are_refused(monkeypatch, content):
    async def wait(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    monkeypatch.setattr(http_protocol, "MAX_HEADER_BYTES", 1000)
    with running(wait) as (port, _), socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(content)
        while not select.select([connection], [], [], 0.1)[0]:
            connection.sendall(b"a" * 600)  # data together with the end of the headers is not counted
        response = connection.recv(65536)
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body) == {"error": "the headers of a request have at most 1,000 bytes"}


def test_the_limit_of_headers_does_not_apply_to_bodies(monkeypatch):
    async def count(scope, receive, send):
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": str(size).encode()})

    monkeypatch.setattr(http_protocol, "MAX_HEADER_BYTES", 1000)
    with running(count) as (port, _):
        head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500000\r\n\r\n"
        assert b"500000" in exchange(port, head + b"a" * 500_000)


def test_idle_connections_are_closed(monkeypatch):
    async def slow(scope, receive, send):
        await asyncio.sleep(1.5)
        await in_parts(scope, receive, send)

    monkeypatch.setattr(http_protocol, "IDLE_CHECK_S", 0.4)
    request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with running(slow) as (port, _):
        assert exchange(port, b"") == exchange(port, b"GET / HT") == b""
        assert exchange(port, request).endswith(b"0\r\n\r\n")  # an active request is completed
        assert exchange(port, request + b"GET / HT").count(b"HTTP/1.1 200") == 1


def test_buffered_data_is_read_before_an_idle_connection_is_closed():
    with running(in_parts) as (port, connections), socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        while not connections:
            time.sleep(0.01)
        (protocol,) = connections
        protocol.loop.call_soon_threadsafe(protocol._check_idle)  # late, and before new data is read
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert b"".join(iter(lambda: client.recv(65536), b"")).endswith(b"0\r\n\r\n")


def test_a_client_that_does_not_read_the_response_is_disconnected(monkeypatch):
    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(50_000_000)})

    monkeypatch.setattr(http_protocol, "IDLE_CHECK_S", 0.5)
    with running(large) as (port, connections), socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert client.recv(8) == b"HTTP/1.1"
        deadline = time.monotonic() + 60
        while connections and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not connections


def test_malformed_http_is_answered_as_json_and_logged_with_a_limit(capfd):
    with running(no_app) as (port, _):
        for _ in range(2 * http_protocol.MAX_WARNINGS_PER_MINUTE + 15):
            with closing(socket.create_connection(("127.0.0.1", port))) as connection:
                connection.sendall(b"GET / HTTP/9.9 \xff\r\n\r\n")
                response = b""
                while part := connection.recv(4096):
                    response += part
            head, _, body = response.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400 ") and b"content-type: application/json" in head
            assert b"x-content-type-options: nosniff" in head
            assert json.loads(body) == {"error": "the request is not valid HTTP/1.1"}
    assert 0 < capfd.readouterr().err.count("Invalid HTTP") <= 2 * http_protocol.MAX_WARNINGS_PER_MINUTE


def test_dropped_warnings_are_counted_in_the_next_minute(monkeypatch):
    logged = []
    logger = http_protocol.LimitedLogger(SimpleNamespace(warning=lambda message, *args: logged.append(message % args)))
    monkeypatch.setattr(http_protocol.time, "monotonic", lambda: 61.0)
    for _ in range(http_protocol.MAX_WARNINGS_PER_MINUTE + 3):
        logger.warning("invalid")
    monkeypatch.setattr(http_protocol.time, "monotonic", lambda: 121.0)
    logger.warning("again")
    assert logged[-2:] == ["3 warnings about invalid requests were not logged", "again"]
    assert len(logged) == http_protocol.MAX_WARNINGS_PER_MINUTE + 2


async def no_app(scope, receive, send):
    """Fail: the application is never called."""
