"""Uvicorn's HTTP protocol, hardened: limited headers, idle connections closed, head and body sent in one write.

Uvicorn writes the head and the body of a response separately; each write is a system call and wakes the client.
"""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import Any

from regard.core.extras import require
from regard.serve.middleware import DEFAULT_POLICY, SECURITY_HEADERS

HEAD = b"HTTP/1.1 "  # start of a response's head
MAX_HEADER_BYTES = 65_536  # bytes of URL and headers: Uvicorn has no limit, and its time grows with their square
MAX_WARNINGS_PER_MINUTE = 20  # about malformed requests, in the log
IDLE_CHECK_S = 6.0  # seconds between two checks of a connection: if it is idle and nothing has changed, it is closed
require("httptools", extra="serve")
_protocol: Any = require("uvicorn.protocols.http.httptools_impl", extra="serve").HttpToolsProtocol


class BufferedTransport:
    """A transport that holds the head of a response until the body is written, or until the next loop iteration."""

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write data, together with the held head."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(HEAD) and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Write the held head, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedLogger:
    """A logger that drops warnings beyond a number per minute: any client can cause them."""

    def __init__(self, logger: Any) -> None:
        self._logger, self._minute, self._count = logger, 0, 0

    def warning(self, message: str, *args: Any, **options: Any) -> None:
        """Log a warning, unless there were too many in this minute; the first of the next minute counts the dropped."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            dropped = max(0, self._count - MAX_WARNINGS_PER_MINUTE)
            self._minute, self._count = minute, 0
            if dropped:
                self._logger.warning("%d warnings about invalid requests were not logged", dropped)
        self._count += 1
        if self._count <= MAX_WARNINGS_PER_MINUTE:
            self._logger.warning(message, *args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)


@lru_cache(maxsize=4)  # one for all connections of a server
def limited_logger(logger: Any) -> LimitedLogger:
    """Return the limited form of a logger."""
    return LimitedLogger(logger)


class Protocol(_protocol):  # type: ignore[misc]  # uvicorn is an optional dependency
    """Uvicorn's protocol over a BufferedTransport, protected against malicious clients."""

    logger: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = limited_logger(self.logger)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(BufferedTransport(transport, self.loop))
        self._unparsed_bytes = 0
        # state at the previous check; data received before it has been parsed since
        self._previous: tuple[Any, int] | None = None
        self._idle_timer = self.loop.call_later(IDLE_CHECK_S, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            message = f"the headers of a request have at most {MAX_HEADER_BYTES:,} bytes"
            self._send_error("431 Request Header Fields Too Large", message)

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP with one line of JSON."""
        self._send_error("400 Bad Request", "the request is not valid HTTP/1.1")

    def _send_error(self, status: str, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        lines = [
            *(f"{name.decode()}: {value.decode()}" for name, value in (*SECURITY_HEADERS, DEFAULT_POLICY)),
            "content-type: application/json",
            "connection: close",
            f"content-length: {len(body)}",
        ]
        self.transport.write(HEAD + "\r\n".join([status, *lines, "", ""]).encode() + body)
        self.transport.close()

    def on_headers_complete(self) -> None:
        self._unparsed_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def _check_idle(self) -> None:
        """Close the connection of a client that is silent, never ends its headers, or does not read the response."""
        current = self.cycle, self.transport.get_write_buffer_size()
        is_idle = self.cycle is None or self.cycle.response_complete or self.transport.is_closing()
        if is_idle and current == self._previous:
            self.transport.abort()
            return
        self._previous = current
        self._idle_timer = self.loop.call_later(IDLE_CHECK_S, self._check_idle)
