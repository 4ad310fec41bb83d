"""What a request may cost: each refusal is one line, and nothing behind it is run."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from regard.serve import middleware
from regard.serve.middleware import Limits, ServerPolicy, is_loopback

HEADERS = {"host": "127.0.0.1:8765"}


def finish(work):
    """In a thread of its own: a browser of another test may keep a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def ask(headers=HEADERS, messages=None, *, loopback=True, app=None):
    """A request by hand -> status, JSON and headers of the answer, and what the application got."""
    sent, seen = [], []
    waiting = list([{"type": "http.request", "body": b"{}"}] if messages is None else messages)

    async def receive():
        if not waiting:
            await asyncio.sleep(60)
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    async def behind(scope, receive, send):
        seen.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    finish((app or Limits(behind, allowed=ServerPolicy(loopback)))(scope, receive, send))
    start, *rest = sent
    body = json.loads(b"".join(part["body"] for part in rest))
    return start["status"], body.get("error"), dict(start["headers"]), seen


def test_a_plain_request_arrives_whole():
    parts = [{"type": "http.request", "body": b"ab", "more_body": True}, {"type": "http.request", "body": b"c"}]
    assert ask(messages=parts)[0::3] == (200, [b"abc"])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "", "127.0.0.1.evil.example", "[", "10.0.0.1"])
def test_a_name_that_leads_here_from_elsewhere_is_refused_on_loopback(host):
    status, error, _, seen = ask({"host": host})
    assert status == 421 and not seen
    assert "is not this machine: use http://127.0.0.1 or http://localhost" in error
    assert ask({"host": host}, loopback=False)[0] == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8765", "127.8.9.10"])
def test_names_of_this_machine_are_answered(host):
    assert ask({"host": host})[0] == 200


def test_a_page_of_another_site_may_not_ask():
    status, error, _, seen = ask({**HEADERS, "origin": "https://evil.example"})
    assert (status, error, seen) == (403, "a page of 'https://evil.example' may not ask this server", [])
    assert ask({**HEADERS, "origin": "null"})[0] == 403
    pictured = {**HEADERS, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert ask(pictured)[:2] == (403, "a page of another site may not ask this server")
    assert ask({**pictured, "sec-fetch-mode": "navigate"})[0] == 200  # a link that somebody follows
    assert ask({**HEADERS, "origin": "http://127.0.0.1:8765"})[0] == 200


@pytest.mark.parametrize("stated", ["1000001", "9" * 400, "abc", "-1"])
def test_a_body_that_says_it_is_large_is_not_read(stated):
    status, error, headers, seen = ask({**HEADERS, "content-length": stated}, messages=[])
    assert (status, error) == (413, "a request has at most 1,000,000 bytes")
    assert headers[b"connection"] == b"close" and not seen


def test_a_body_that_does_not_end_is_cut_off():
    endless = [{"type": "http.request", "body": bytes(300_000), "more_body": True}] * 5
    assert ask(messages=endless)[:2] == (413, "a request has at most 1,000,000 bytes")


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(middleware, "SLOWEST", 0.05)
    half = [{"type": "http.request", "body": b"{", "more_body": True}]
    assert ask(messages=half)[:2] == (408, "the request did not arrive within 0.05 seconds")


def test_a_client_that_leaves_in_the_middle_is_noticed():
    half = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    assert ask(messages=half)[:2] == (400, "the request ended before it was whole")


def test_only_so_many_at_a_time(monkeypatch):
    monkeypatch.setattr(middleware, "MOST", 0)
    status, error, headers, seen = ask()
    assert (status, error, seen) == (503, "0 requests are being answered; try again in a second", [])
    assert headers[b"retry-after"] == b"1"


def test_only_so_many_bytes_at_a_time(monkeypatch):
    monkeypatch.setattr(middleware, "HELD", 3)
    assert ask()[0] == 200
    large = [{"type": "http.request", "body": b"abcd"}]
    status, error, headers, seen = ask(messages=large)
    assert (status, seen, headers[b"retry-after"]) == (503, [], b"1")
    assert error == "the requests that are being answered are large; try again in a second"


def test_every_request_gives_its_place_back():
    async def failing(scope, receive, send):
        raise RuntimeError

    limited = Limits(failing, allowed=ServerPolicy(loopback=True))
    for _ in range(3):
        with pytest.raises(RuntimeError):
            ask(app=limited)
        ask({"host": "x"}, app=limited)
    assert limited.allowed.active == limited.allowed.pending_bytes == 0


def test_when_the_server_ends_half_a_request_is_answered(monkeypatch):
    async def run():
        sent, limited = [], Limits(None, allowed=ServerPolicy(loopback=True))

        async def receive():
            await asyncio.sleep(60)

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "headers": [(b"host", b"localhost")]}
        task = asyncio.ensure_future(limited(scope, receive, send))
        await asyncio.sleep(0)
        task.cancel()
        await task
        return sent

    start, body = finish(run())
    assert start["status"] == 503 and b"the server has been told to end" in body["body"]


def test_when_the_server_ends_what_has_just_arrived_is_answered():
    async def run():
        sent, allowed = [], ServerPolicy(loopback=True)

        async def receive():
            allowed.end()  # the signal comes while the last part does
            return {"type": "http.request", "body": b"{}"}

        async def send(message):
            sent.append(message)

        async def behind(scope, receive, send):
            await asyncio.sleep(0.05)
            await send({"type": "http.response.start", "status": 200})

        await Limits(behind, allowed=allowed)({"type": "http", "headers": [(b"host", b"localhost")]}, receive, send)
        return sent

    assert [message["status"] for message in finish(run())] == [200]


def test_loopback():
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.org")


def test_who_sends_too_much_is_let_finish_and_then_told(monkeypatch):
    """A client that is cut off while it sends does not read why; one that never ends is not waited for."""
    monkeypatch.setattr(middleware, "DRAINING", 0.05)
    stated = [(b"host", b"localhost"), (b"content-length", b"9000000")]

    async def ask(parts):
        sent, left = [], list(parts)

        async def receive():
            if not left:
                await asyncio.sleep(60)
            return left.pop(0)

        async def send(message):
            sent.append(message)

        await middleware.Limits(None, allowed=middleware.ServerPolicy(loopback=True))(
            {"type": "http", "headers": stated, "path": "/"}, receive, send
        )
        return sent[0]["status"], len(left)

    whole = [{"type": "http.request", "body": b"x", "more_body": number < 4} for number in range(5)]
    with ThreadPoolExecutor(1) as pool:  # a thread of its own: this one may have a loop, of a browser
        for parts in (whole, whole[:2], [{"type": "http.disconnect"}]):  # the second: the rest never comes
            assert pool.submit(lambda parts=parts: asyncio.run(ask(parts))).result() == (413, 0)
