"""Limits on requests before they are parsed: addressee, API key, size, time to arrive, number at a time.

Every refusal is one line of JSON.
"""

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
MAX_REQUESTS = 16  # active and queued requests
PUBLIC_PATH = "/health"  # served without the API key
MAX_PENDING_BYTES = 200_000_000  # bytes of the bodies of all requests
MAX_DRAIN_BYTES = 100_000_000  # bytes of a too large body that are read and discarded
DRAIN_TIMEOUT_S = BODY_TIMEOUT_S  # seconds for which a too large body is read and discarded
SHUTDOWN_MESSAGE = "the server is shutting down"


class RequestRejected(Exception):
    """A request that is refused before it is parsed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@lru_cache(maxsize=64)  # most requests have the same host
def is_loopback(host: str) -> bool:
    """Return True if a host name is this machine and cannot be a DNS name under the control of others."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(eq=False)
class ServerPolicy:
    """Limits of a server, and its current load."""

    loopback: bool
    key: str = ""  # API key that every request must have; "": none
    max_body_bytes: int | None = None  # None: MAX_BODY_BYTES
    max_requests: int | None = None  # active and queued; None: MAX_REQUESTS
    shutting_down: bool = False
    active: int = 0  # requests
    pending_bytes: int = 0  # bytes of the bodies of active requests
    reading: set[asyncio.Task[Any]] = field(default_factory=set)  # requests whose body has not arrived completely

    def end(self) -> None:
        """Refuse new and incomplete requests from now on; complete ones are answered."""
        self.shutting_down = True
        for task in list(self.reading):
            task.get_loop().call_soon_threadsafe(self._cancel_reading, task)

    def _cancel_reading(self, task: asyncio.Task[Any]) -> None:
        if task in self.reading:  # else the request has arrived in the meantime
            task.cancel()


class Limits:
    """ASGI middleware that enforces a ServerPolicy."""

    def __init__(self, app: App, *, policy: ServerPolicy) -> None:
        self.app, self.policy = app, policy

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        max_requests = MAX_REQUESTS if self.policy.max_requests is None else self.policy.max_requests
        if self.policy.active >= max_requests:
            return await _reject(send, RequestRejected(503, f"{max_requests} requests are active; retry in a second"))
        self.policy.active += 1
        body = b""
        try:
            body = await self._read_request(scope, receive)
        except RequestRejected as rejection:
            if rejection.status == 413:
                await _drain(receive)
            return await _reject(send, rejection)
        except asyncio.CancelledError:  # the server is shutting down, and the body is incomplete
            return await _reject(send, RequestRejected(503, SHUTDOWN_MESSAGE))
        else:
            return await self.app(scope, _replay(body, receive), send)
        finally:
            self.policy.active -= 1
            self.policy.pending_bytes -= len(body)

    async def _read_request(self, scope: Message, receive: Receive) -> bytes:
        """Check the headers, then return the body."""
        policy, task = self.policy, asyncio.current_task()
        if policy.shutting_down:
            raise RequestRejected(503, SHUTDOWN_MESSAGE)
        max_bytes = MAX_BODY_BYTES if policy.max_body_bytes is None else policy.max_body_bytes
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        _check_headers(headers, loopback=policy.loopback, max_bytes=max_bytes)
        if policy.key and scope.get("path") != PUBLIC_PATH and not _has_key(headers, policy.key):
            raise RequestRejected(401, "this server requires a key; send it as Authorization: Bearer KEY")
        assert task is not None
        policy.reading.add(task)
        try:
            return await self._read_body(receive, max_bytes)
        finally:
            policy.reading.discard(task)

    async def _read_body(self, receive: Receive, max_bytes: int) -> bytes:
        """Return the body; refuse it if it is too large or too slow, or if the server holds too many bytes."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRejected(400, "the request is incomplete: the client disconnected")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self.policy.pending_bytes += len(parts[-1])
                    if size > max_bytes:
                        raise RequestRejected(413, f"a request has at most {max_bytes:,} bytes")
                    if self.policy.pending_bytes > MAX_PENDING_BYTES:
                        raise RequestRejected(503, "the active requests are too large; retry in a second")
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            self.policy.pending_bytes -= size
            raise RequestRejected(408, f"the request did not arrive within {BODY_TIMEOUT_S:g} seconds") from None
        except BaseException:
            self.policy.pending_bytes -= size
            raise


def _check_headers(headers: Mapping[str, str], *, loopback: bool, max_bytes: int) -> None:
    """Refuse requests of other sites' pages, which a browser can send to this machine (DNS rebinding, CSRF)."""
    host = _host_name(f"//{headers.get('host', '')}")
    if loopback and not is_loopback(host):
        raise RequestRejected(421, f"Host {host[:80]!r} is not this machine; use http://127.0.0.1 or http://localhost")
    origin = headers.get("origin")
    if origin is not None and _host_name(origin) != host:
        raise RequestRejected(403, f"pages of {origin[:80]!r} may not send requests to this server")
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        raise RequestRejected(403, "pages of another site may not send requests to this server")  # as image or script
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 18 or int(length) > max_bytes:
        raise RequestRejected(413, f"a request has at most {max_bytes:,} bytes")


def _has_key(headers: Mapping[str, str], key: str) -> bool:
    """Return True if a request has the key, as bearer token or as password (for browsers). The comparison takes
    constant time."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            credentials = base64.b64decode(credentials, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            credentials = ""
    return hmac.compare_digest(credentials.strip().encode(), key.encode())


@lru_cache(maxsize=64)
def _host_name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body first; only a disconnect can follow."""
    is_sent = False

    async def receive_body() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


async def _drain(receive: Receive) -> None:
    """Read and discard a too large body for a while: a client that cannot finish sending does not read the error."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            while size < MAX_DRAIN_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return


async def _reject(send: Send, rejection: RequestRejected) -> None:
    body = json.dumps({"error": rejection.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    if rejection.status == 503:
        headers.append((b"retry-after", b"1"))
    if rejection.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="regard"'))  # a browser then asks for the key as password
    await send({"type": "http.response.start", "status": rejection.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
