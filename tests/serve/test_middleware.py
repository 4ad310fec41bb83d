"""Limits on requests: every refusal is a one-line error, and the application is not called."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from regard.serve import middleware
from regard.serve.middleware import Limits, ServerPolicy, is_loopback

HEADERS = {"host": "127.0.0.1:8765"}


def run_in_thread(coroutine):
    """Run in another thread: a browser of another test may have left a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


def send_request(headers=HEADERS, messages=None, *, loopback=True, app=None, method="GET"):
    """Send a request -> status, error and headers of the response, and the bodies that the application received."""
    sent, bodies = [], []
    remaining = list([{"type": "http.request", "body": b"{}"}] if messages is None else messages)

    async def receive():
        if not remaining:
            await asyncio.sleep(60)
        return remaining.pop(0)

    async def send(message):
        sent.append(message)

    async def application(scope, receive, send):
        bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    headers_list = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": "/v1/translate", "headers": headers_list}
    run_in_thread((app or Limits(application, policy=ServerPolicy(loopback)))(scope, receive, send))
    start, *rest = sent
    body = json.loads(b"".join(part["body"] for part in rest))
    return start["status"], body.get("error"), dict(start["headers"]), bodies


def test_the_body_of_a_valid_request_is_passed_on():
    parts = [{"type": "http.request", "body": b"ab", "more_body": True}, {"type": "http.request", "body": b"c"}]
    assert send_request(messages=parts)[0::3] == (200, [b"abc"])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "10.0.0.1"])
def test_foreign_host_names_are_refused_on_loopback(host):
    status, error, _, bodies = send_request({"host": host})
    assert status == 421 and not bodies
    assert "is not this machine; use http://127.0.0.1 or http://localhost" in error
    assert send_request({"host": host}, loopback=False)[0] == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8765", "127.8.9.10"])
def test_names_of_this_machine_are_accepted(host):
    assert send_request({"host": host})[0] == 200


def test_pages_of_other_sites_are_refused():
    status, error, _, bodies = send_request({**HEADERS, "origin": "https://evil.example"})
    assert (status, error, bodies) == (403, "pages of 'https://evil.example' may not send requests to this server", [])
    assert send_request({**HEADERS, "origin": "null"})[0] == 403
    as_image = {**HEADERS, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert send_request(as_image)[:2] == (403, "pages of another site may not send requests to this server")
    assert send_request({**as_image, "sec-fetch-mode": "navigate"})[0] == 200  # a link
    host = {"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:8765"}
    assert send_request({**HEADERS, **host})[0] == 200
    for other in ("http://127.0.0.1:9999", "https://127.0.0.1:8765", "http://127.0.0.1", "http://localhost:8765"):
        assert send_request({**HEADERS, **host, "origin": other})[0] == 403, other


@pytest.mark.parametrize(
    "host", ["", "[", "evil.com@127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1/a", "a b", "127.0.0.1:999999"]
)
def test_a_host_that_is_not_valid_is_400(host):
    status, error, _, bodies = send_request({**HEADERS, "host": host})
    assert (status, bodies) == (400, []) and error.endswith("is not a host name with an optional port")
    assert send_request({**HEADERS, "host": host}, loopback=False)[0] == 400


def test_a_request_has_exactly_one_host():
    assert send_request({})[:2] == (400, "a request has exactly one Host header")
    assert send_request({"host": "evil.example", "Host": "127.0.0.1"})[:2] == (
        400,
        "a request has exactly one Host header",
    )


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; a=b"])
def test_a_body_must_be_declared_as_json(kind):
    app = Limits(None, policy=ServerPolicy(loopback=True))
    error = send_request({**HEADERS, "content-type": kind}, app=app, method="POST")[:2]
    assert error == (415, f"Content-Type {kind.partition(';')[0]!r}: send application/json")


def test_the_key_is_checked_before_the_size():
    app = Limits(None, policy=ServerPolicy(loopback=True, key="secret"))
    status, *_ = send_request({**HEADERS, "content-length": "99999999"}, messages=[], app=app)
    assert status == 401


def test_clients_that_send_too_much_do_not_keep_others_out(monkeypatch):
    policy = ServerPolicy(loopback=True)
    seen = []

    async def drain(_):
        seen.append((policy.active, policy.draining))

    monkeypatch.setattr(middleware, "_drain", drain)
    app = Limits(None, policy=policy)
    large = {**HEADERS, "content-length": "99999999"}
    assert send_request(large, messages=[], app=app)[0] == 413
    policy.draining = middleware.MAX_DRAINING
    assert send_request(large, messages=[], app=app)[0] == 413
    assert seen == [(0, 1)] and policy.active == 0


@pytest.mark.parametrize("length", ["1000001", "9" * 400, "abc", "-1"])
def test_a_body_with_a_large_content_length_is_not_read(length, monkeypatch):
    monkeypatch.setattr(middleware, "DRAIN_TIMEOUT_S", 0.05)
    status, error, headers, bodies = send_request({**HEADERS, "content-length": length}, messages=[])
    assert (status, error) == (413, "a request has at most 1,000,000 bytes")
    assert headers[b"connection"] == b"close" and not bodies


def test_an_endless_body_is_refused(monkeypatch):
    monkeypatch.setattr(middleware, "DRAIN_TIMEOUT_S", 0.05)
    endless = [{"type": "http.request", "body": bytes(300_000), "more_body": True}] * 5
    assert send_request(messages=endless)[:2] == (413, "a request has at most 1,000,000 bytes")


def test_a_slow_body_is_refused(monkeypatch):
    monkeypatch.setattr(middleware, "BODY_TIMEOUT_S", 0.05)
    half = [{"type": "http.request", "body": b"{", "more_body": True}]
    assert send_request(messages=half)[:2] == (408, "the request did not arrive within 0.05 seconds")


def test_a_disconnect_during_the_body_is_detected():
    half = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    assert send_request(messages=half)[:2] == (400, "the request is incomplete: the client disconnected")


def test_the_number_of_active_requests_is_limited(monkeypatch):
    monkeypatch.setattr(middleware, "MAX_REQUESTS", 0)
    status, error, headers, bodies = send_request()
    assert (status, error, bodies) == (503, "0 requests are active; retry in a second", [])
    assert headers[b"retry-after"] == b"1"


def test_the_bytes_of_all_active_requests_are_limited(monkeypatch):
    monkeypatch.setattr(middleware, "MAX_PENDING_BYTES", 3)
    assert send_request()[0] == 200
    large = [{"type": "http.request", "body": b"abcd"}]
    status, error, headers, bodies = send_request(messages=large)
    assert (status, bodies, headers[b"retry-after"]) == (503, [], b"1")
    assert error == "the active requests are too large; retry in a second"


def test_every_request_releases_its_slot():
    async def failing(scope, receive, send):
        raise RuntimeError

    limited = Limits(failing, policy=ServerPolicy(loopback=True))
    for _ in range(3):
        with pytest.raises(RuntimeError):
            send_request(app=limited)
        send_request({"host": "x"}, app=limited)
    assert limited.policy.active == limited.policy.pending_bytes == 0


def test_an_incomplete_request_is_refused_on_shutdown():
    async def run():
        sent, limited = [], Limits(None, policy=ServerPolicy(loopback=True))

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

    start, body = run_in_thread(run())
    assert start["status"] == 503 and b"the server is shutting down" in body["body"]


def test_a_request_that_completes_during_a_shutdown_is_answered():
    async def run():
        sent, policy = [], ServerPolicy(loopback=True)

        async def receive():
            policy.end()  # the signal arrives with the last part
            return {"type": "http.request", "body": b"{}"}

        async def send(message):
            sent.append(message)

        async def application(scope, receive, send):
            await asyncio.sleep(0.05)
            await send({"type": "http.response.start", "status": 200})

        await Limits(application, policy=policy)({"type": "http", "headers": [(b"host", b"localhost")]}, receive, send)
        return sent

    assert [message["status"] for message in run_in_thread(run())] == [200]


def test_loopback():
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.org")


def test_a_too_large_body_is_drained_before_it_is_refused(monkeypatch):
    """A client that is cut off while it sends does not read the error; the drain has a timeout."""
    monkeypatch.setattr(middleware, "DRAIN_TIMEOUT_S", 0.05)
    headers = [(b"host", b"localhost"), (b"content-length", b"9000000")]

    async def send_parts(parts):
        sent, remaining = [], list(parts)

        async def receive():
            if not remaining:
                await asyncio.sleep(60)
            return remaining.pop(0)

        async def send(message):
            sent.append(message)

        await Limits(None, policy=ServerPolicy(loopback=True))(
            {"type": "http", "headers": headers, "path": "/"}, receive, send
        )
        return sent[0]["status"], len(remaining)

    complete = [{"type": "http.request", "body": b"x", "more_body": index < 4} for index in range(5)]
    for parts in (complete, complete[:2], [{"type": "http.disconnect"}]):  # the rest of the second never arrives
        assert run_in_thread(send_parts(parts)) == (413, 0)
