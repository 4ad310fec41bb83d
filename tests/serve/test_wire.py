"""Head and body of an answer leave in one write; nothing that is kept is lost."""

from __future__ import annotations

import asyncio
import http.client
import threading
from contextlib import closing

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
from regard.serve.listen import listen
from regard.serve.wire import Joined

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
    joined = Joined(transport, loop)
    joined.write(HEAD)
    joined.write(b"{}")
    joined.write(b"more")
    for call in loop.soon:
        call()
    assert transport.written == [HEAD + b"{}", b"more"] and not joined.is_closing()


def test_a_head_alone_goes_with_the_next_turn_or_before_the_end():
    transport, loop = Transport(), Loop()
    joined = Joined(transport, loop)
    joined.write(HEAD)
    assert transport.written == []
    loop.soon.pop()()
    assert transport.written == [HEAD]
    joined.write(HEAD)
    joined.close()
    assert transport.written == [HEAD, HEAD] and transport.closed
    loop.soon.pop()()  # and not once more


def test_a_server_answers_by_it_whole_and_in_parts():
    import uvicorn

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"a", b"b", b""):
            await send({"type": "http.response.body", "body": part, "more_body": bool(part)})
            await asyncio.sleep(0.01)

    with listen("127.0.0.1", 0) as taken:
        settings = uvicorn.Config(app, http="regard.serve.wire:Protocol", lifespan="off", log_level="warning")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        try:
            port = taken.getsockname()[1]
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as asked:
                for _ in range(3):  # over one connection
                    asked.request("POST", "/", b"{}")
                    assert asked.getresponse().read() == b"ab"
        finally:
            server.should_exit = True
            thread.join(20)
