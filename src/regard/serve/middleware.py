"""Limits on requests before they are parsed: addressee, API key, size, time to arrive, number at a time.

Every refusal is one line of JSON. Every response has the headers that keep a browser from misusing it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 1_000_000  # bytes of a body
BODY_TIMEOUT_S = 10.0  # seconds until a body has arrived
MAX_REQUESTS = 16  # active and queued requests
MAX_DRAINING = 8  # too large bodies that are read and discarded at a time
HOST_PATTERN = re.compile(r"([A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
DEFAULT_PORTS, MAX_PORT = {"http": 80, "https": 443}, 65535
JSON_TYPE = "application/json"
JSON_PATHS, RUNS_PATH = ("/v1/", "/api/"), "/v1/runs"  # POST requests have a body, except to the list of runs
PUBLIC_PATH = "/health"  # served without the API key
MAX_PENDING_BYTES = 200_000_000  # bytes of the bodies of all requests
MAX_DRAIN_BYTES = 100_000_000  # bytes of a too large body that are read and discarded
DRAIN_TIMEOUT_S = BODY_TIMEOUT_S  # seconds for which a too large body is read and discarded
SHUTDOWN_MESSAGE = "the server is shutting down"
POLICY_HEADER, NO_FRAMES = b"content-security-policy", "frame-ancestors 'none'"
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
DEFAULT_POLICY = (POLICY_HEADER, f"default-src 'none'; {NO_FRAMES}".encode())  # of responses that are not pages


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
    draining: int = 0  # too large bodies that are read and discarded
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
        send = _with_security_headers(send)
        max_requests = MAX_REQUESTS if self.policy.max_requests is None else self.policy.max_requests
        if self.policy.active >= max_requests:
            return await _reject(send, RequestRejected(503, f"{max_requests} requests are active; retry in a second"))
        self.policy.active += 1
        body = b""
        try:
            body = await self._read_request(scope, receive)
        except RequestRejected as rejection:
            if rejection.status == 413 and self.policy.draining < MAX_DRAINING:
                await self._drain(receive)
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
        if sum(name.lower() == b"host" for name, _ in scope["headers"]) != 1:
            raise RequestRejected(400, "a request has exactly one Host header")
        _check_origin(headers, scheme=scope.get("scheme", "http"), loopback=policy.loopback)
        if policy.key and scope.get("path") != PUBLIC_PATH and not _has_key(headers, policy.key):
            raise RequestRejected(401, "this server requires a key; send it as Authorization: Bearer KEY")
        path = scope.get("path", "")
        has_body = scope.get("method") == "POST" and path.startswith(JSON_PATHS) and path != RUNS_PATH
        _check_body_headers(headers, is_json=has_body, max_bytes=max_bytes)
        assert task is not None
        policy.reading.add(task)
        try:
            return await self._read_body(receive, max_bytes)
        finally:
            policy.reading.discard(task)

    async def _drain(self, receive: Receive) -> None:
        """Read and discard a too large body for a while: a client that cannot finish sending does not read the error.

        Meanwhile the request does not count as active, so that such clients cannot keep others out.
        """
        self.policy.draining += 1
        self.policy.active -= 1
        try:
            await _drain(receive)
        finally:
            self.policy.draining -= 1
            self.policy.active += 1

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


def _check_origin(headers: Mapping[str, str], *, scheme: str, loopback: bool) -> None:
    """Refuse requests of other sites' pages, which a browser can send to this machine (DNS rebinding, CSRF)."""
    address = _parse_address(f"{scheme}://{headers.get('host', '')}")
    if address is None:
        raise RequestRejected(400, f"Host {headers.get('host', '')[:80]!r} is not a host name with an optional port")
    if loopback and not is_loopback(address[1]):
        raise RequestRejected(
            421, f"Host {address[1][:80]!r} is not this machine; use http://127.0.0.1 or http://localhost"
        )
    origin = headers.get("origin")
    if origin is not None and _parse_address(origin) != address:
        raise RequestRejected(403, f"pages of {origin[:80]!r} may not send requests to this server")
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        raise RequestRejected(403, "pages of another site may not send requests to this server")  # as image or script


def _check_body_headers(headers: Mapping[str, str], *, is_json: bool, max_bytes: int) -> None:
    """Refuse bodies that are too large, or not declared as JSON: a page of another site may send only other types."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if is_json and media_type != JSON_TYPE:
        raise RequestRejected(415, f"Content-Type {media_type[:80]!r}: send {JSON_TYPE}")
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
def _parse_address(address: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of http://host:port; None if it is anything else."""
    scheme, separator, authority = address.partition("://")
    match = HOST_PATTERN.fullmatch(authority)
    if not separator or match is None or scheme not in DEFAULT_PORTS:
        return None
    host, port_text = match.groups()
    port = int(port_text) if port_text else DEFAULT_PORTS[scheme]
    return (scheme, host.strip("[]").lower(), port) if port <= MAX_PORT else None


def _with_security_headers(send: Send) -> Send:
    """Return a `send` that adds the headers of every response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            has_policy = any(name.lower() == POLICY_HEADER for name, _ in headers)
            message = {**message, "headers": [*headers, *SECURITY_HEADERS, *(() if has_policy else (DEFAULT_POLICY,))]}
        await send(message)

    return send_with_headers


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
