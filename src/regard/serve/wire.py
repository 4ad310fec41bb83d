"""How answers leave the server: the head of an answer waits for its body, and both are one write. Uvicorn writes them
one after the other, and each write goes to the system by itself and wakes the client."""

from __future__ import annotations

from typing import Any

from regard.core.extras import require

HEAD = b"HTTP/1.1 "  # what the head of an answer begins with
_protocol: Any = require("uvicorn.protocols.http.auto", extra="serve").AutoHTTPProtocol


class Joined:
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
    """Uvicorn's own protocol over such a transport."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Joined(transport, self.loop))
