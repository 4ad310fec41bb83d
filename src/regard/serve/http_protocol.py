"""Uvicorn's HTTP protocol, hardened: limited headers, idle connections closed, head and body sent in one write.

Uvicorn writes the head and the body of a response separately; each write is a system call and wakes the client.
"""

from __future__ import annotations

import json
from typing import Any

from regard.core.extras import require

HEAD = b"HTTP/1.1 "  # start of a response's head
MAX_HEADER_BYTES = 65_536  # bytes of URL and headers: Uvicorn has no limit, and its time grows with their square
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


class Protocol(_protocol):  # type: ignore[misc]  # uvicorn is an optional dependency
    """Uvicorn's protocol over a BufferedTransport, protected against malicious clients."""

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
            body = json.dumps({"error": f"the headers of a request have at most {MAX_HEADER_BYTES:,} bytes"}).encode()
            head = f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            self.transport.write(HEAD + b"431 Request Header Fields Too Large\r\n" + head.encode() + body)
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
