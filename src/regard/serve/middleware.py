"""What a request may cost, before anything reads it: whom it is addressed to, how large it is, how long it takes to
arrive, how many there are at once. Each refusal is one line of JSON."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 1_000_000  # bytes of a body
BODY_TIMEOUT_S = 10.0  # seconds until a body has arrived
MAX_REQUESTS = 16  # requests at a time, those that wait included
OPEN = "/health"  # what is answered without a key
MAX_PENDING_BYTES = 200_000_000  # bytes of the bodies of all requests
MAX_DRAIN_BYTES, DRAIN_TIMEOUT_S = (
    100_000_000,
    BODY_TIMEOUT_S,
)  # bytes and seconds of a body that is too large, which are thrown away


class RequestRejected(Exception):
    """A request that is not read: status and one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.line = status, message


@lru_cache(maxsize=64)  # most requests say the same
def is_loopback(host: str) -> bool:
    """Whether a host is this machine by a name that no other machine's owner can hand out."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(eq=False)
class ServerPolicy:
    """What a server allows, and whether it still takes requests."""

    loopback: bool
    key: str = ""  # that every request must have; "": none
    max_body_bytes: int | None = None  # bytes of a body; None: LARGEST
    max_requests: int | None = None  # requests at a time; None: MOST
    shutting_down: bool = False
    active: int = 0  # requests that are being answered
    pending_bytes: int = 0  # bytes of their bodies
    reading: set[asyncio.Task[Any]] = field(default_factory=set)  # requests that have not arrived whole

    def end(self) -> None:
        """No request is taken any more, nor waited for; those that have arrived are answered."""
        self.shutting_down = True
        for task in list(self.reading):
            task.get_loop().call_soon_threadsafe(self._leave, task)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        if task in self.reading:  # else it has arrived since, and is answered
            task.cancel()


class Limits:
    """Stands before an application: what is too much never reaches it."""

    def __init__(self, app: App, *, allowed: ServerPolicy) -> None:
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        most = MAX_REQUESTS if self.allowed.max_requests is None else self.allowed.max_requests
        if self.allowed.active >= most:
            return await _refuse(
                send, RequestRejected(503, f"{most} requests are being answered; try again in a second")
            )
        self.allowed.active += 1
        body = b""
        try:
            body = await self._arrived(scope, receive)
        except RequestRejected as wrong:
            if wrong.status == 413:
                await _drain(receive)
            return await _refuse(send, wrong)
        except asyncio.CancelledError:  # the server is ending, and the rest of this request will not come
            return await _refuse(send, RequestRejected(503, "the server has been told to end"))
        else:
            return await self.app(scope, _again(body, receive), send)
        finally:
            self.allowed.active -= 1
            self.allowed.pending_bytes -= len(body)

    async def _arrived(self, scope: Message, receive: Receive) -> bytes:
        """The body of a request that is allowed."""
        allowed, task = self.allowed, asyncio.current_task()
        if allowed.shutting_down:
            raise RequestRejected(503, "the server has been told to end")
        largest = MAX_BODY_BYTES if allowed.max_body_bytes is None else allowed.max_body_bytes
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        _check(headers, loopback=allowed.loopback, largest=largest)
        if allowed.key and scope.get("path") != OPEN and not _has_key(headers, allowed.key):
            raise RequestRejected(401, "this server wants a key; send it as Authorization: Bearer KEY")
        assert task is not None
        allowed.reading.add(task)
        try:
            return await self._body(receive, largest)
        finally:
            allowed.reading.discard(task)

    async def _body(self, receive: Receive, largest: int) -> bytes:
        """All of it, if it is neither too large nor too slow, and if there is room for it."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRejected(400, "the request ended before it was whole")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self.allowed.pending_bytes += len(parts[-1])
                    if size > largest:
                        raise RequestRejected(413, f"a request has at most {largest:,} bytes")
                    if self.allowed.pending_bytes > MAX_PENDING_BYTES:
                        raise RequestRejected(
                            503, "the requests that are being answered are large; try again in a second"
                        )
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            self.allowed.pending_bytes -= size
            raise RequestRejected(408, f"the request did not arrive within {BODY_TIMEOUT_S:g} seconds") from None
        except BaseException:
            self.allowed.pending_bytes -= size
            raise


def _check(headers: Mapping[str, str], *, loopback: bool, largest: int) -> None:
    """A page elsewhere can send requests to a server on this machine, by a name of its own that leads here."""
    host = _name(f"//{headers.get('host', '')}")
    if loopback and not is_loopback(host):
        raise RequestRejected(421, f"Host {host[:80]!r} is not this machine: use http://127.0.0.1 or http://localhost")
    origin = headers.get("origin")
    if origin is not None and _name(origin) != host:
        raise RequestRejected(403, f"a page of {origin[:80]!r} may not ask this server")
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        raise RequestRejected(
            403, "a page of another site may not ask this server"
        )  # as a picture or a script of its own
    stated = headers.get("content-length", "0")
    if not stated.isdecimal() or len(stated) > 18 or int(stated) > largest:
        raise RequestRejected(413, f"a request has at most {largest:,} bytes")


def _has_key(headers: Mapping[str, str], key: str) -> bool:
    """Whether a request has the key: as a bearer's, or as the password that a browser asks for. How long the comparison
    takes says nothing about the key."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            given = ""
    return hmac.compare_digest(given.strip().encode(), key.encode())


@lru_cache(maxsize=64)
def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the application; then whatever comes, which is that the client has gone."""
    given = False

    async def once() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


async def _drain(receive: Receive) -> None:
    """Let a client that sends too much come to an end, for a while: one that is cut off does not read why."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            while size < MAX_DRAIN_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return


async def _refuse(send: Send, wrong: RequestRejected) -> None:
    body = json.dumps({"error": wrong.line}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    if wrong.status == 503:
        headers.append((b"retry-after", b"1"))
    if wrong.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="regard"'))  # a browser then asks for it, as a password
    await send({"type": "http.response.start", "status": wrong.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
