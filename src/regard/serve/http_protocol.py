"""Connections: what comes before a body is short, and where nothing moves they end. The head of an answer waits for its
body, and both are one write: Uvicorn writes them one after the other, and each write goes to the system by itself and
wakes the client."""

from __future__ import annotations

import json
from typing import Any

from regard.core.extras import require

HEAD = b"HTTP/1.1 "  # what the head of an answer begins with
MAX_HEADER_BYTES = (
    65_536  # bytes of an address and headers: Uvicorn takes any number, in time that grows with their square
)
IDLE_CHECK_S = 6.0  # seconds between two looks at a connection: if nothing is under way and nothing moved, it ends
require("httptools", extra="serve")
_protocol: Any = require("uvicorn.protocols.http.httptools_impl", extra="serve").HttpToolsProtocol


class BufferedTransport:
    """A transport that keeps the head of an answer until what follows it is written, or until the loop's next turn."""

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Head and body together."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(HEAD) and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """What was kept goes first."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(_protocol):  # type: ignore[misc]  # known when uvicorn is there
    """Uvicorn's own protocol over such a transport, for clients that may want to do harm."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(BufferedTransport(transport, self.loop))
        self._unread = 0  # bytes of which nothing has been made yet
        self._seen: tuple[Any, int] | None = None  # at the look before; what had come by then has been read since
        self._looking = self.loop.call_later(IDLE_CHECK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEADER_BYTES and not self.transport.is_closing():
            body = json.dumps({"error": f"the headers of a request have at most {MAX_HEADER_BYTES:,} bytes"}).encode()
            head = f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            self.transport.write(HEAD + b"431 Request Header Fields Too Large\r\n" + head.encode() + body)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def _look(self) -> None:
        """End the connection of a client that is silent, never ends its headers, or does not read its answer."""
        seen = self.cycle, self.transport.get_write_buffer_size()
        waits = self.cycle is None or self.cycle.response_complete or self.transport.is_closing()
        if waits and seen == self._seen:
            self.transport.abort()
            return
        self._seen = seen
        self._looking = self.loop.call_later(IDLE_CHECK_S, self._look)
