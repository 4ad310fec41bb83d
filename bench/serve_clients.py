"""Concurrent clients of a server in one process.

Each client sends a request, waits for the response, compares its texts with those that the run predicts without a
server, and sends the next request. The clients share the machine with the server, so they use little CPU time: plain
sockets and one epoll. Every response is compared; responses with the same bytes are parsed once.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections import Counter
from dataclasses import dataclass, field

CONTENT_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
RETRY_AFTER = re.compile(rb"retry-after: *(\d+)", re.IGNORECASE)
TIMEOUT_S = 120.0  # after which a response counts as lost
POLL_S = 0.5  # between two checks for timeouts and for clients whose pause has ended
MAX_PARSED = 20_000  # cached texts of responses
MAX_HEADS = 1_000  # cached heads of responses


@dataclass(frozen=True)
class ExpectedResponse:
    """The bytes of a request, and the texts that the response must have."""

    request: bytes
    texts: list[str]


@dataclass
class LoadResult:
    """Response times, and the numbers of requests that were refused, lost or answered with other texts."""

    seconds: list[float] = field(default_factory=list)  # per request with a response
    refused: int = 0  # status 429 or 503
    lost: int = 0  # no response, or an incomplete one
    wrong: Counter[str] = field(default_factory=Counter)  # "of another": the texts belong to another request
    example: str = ""  # of a wrong response

    def quantile(self, share: float) -> float:
        """Return the time within which this share of the requests had a response."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass(frozen=True)
class Head:
    """The parsed head of a response."""

    status: int
    length: int  # bytes of the body
    retry_after_s: int
    closes: bool  # the server closes the connection after this response


class Client:
    """A connection, the index of its current request, and the bytes of the response so far."""

    def __init__(self, index: int) -> None:
        self.index = index  # of the next request
        self.connection: socket.socket | None = None
        self.received = b""
        self.sent_at = 0.0
        self.paused_until = 0.0

    def close(self) -> None:
        """Close the connection and discard an incomplete response."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.received = None, b""


def request(address: tuple[str, int], verb: str, body: bytes) -> bytes:
    """Return the bytes of a request to a verb."""
    head = f"POST /v1/{verb} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def load(address: tuple[str, int], expected: list[ExpectedResponse], *, clients: int, seconds: float) -> LoadResult:
    """Send requests from this many clients for this many seconds; each client starts with another request."""
    return Load(address, expected, seconds).run([Client(index) for index in range(clients)])


class Load:
    """Clients that send requests to a server until the time is over."""

    def __init__(self, address: tuple[str, int], expected: list[ExpectedResponse], seconds: float) -> None:
        self.address, self.expected, self.result = address, expected, LoadResult()
        self._known_texts = {tuple(response.texts) for response in expected}
        self._seconds, self._ends_at = seconds, 0.0
        self._epoll = select.epoll()
        self._waiting: dict[int, Client] = {}  # clients that wait for a response, by file descriptor
        self._paused: list[Client] = []
        self._heads: dict[bytes, Head] = {}
        self._parsed: dict[bytes, list[str]] = {}

    def run(self, clients: list[Client]) -> LoadResult:
        """Run until every client has the response of its last request."""
        self._ends_at = time.monotonic() + self._seconds
        with self._epoll:
            for client in clients:
                self._send(client)
            next_check = 0.0
            while self._waiting or self._paused:
                for descriptor, _ in self._epoll.poll(POLL_S):
                    self._receive(self._waiting[descriptor])
                now = time.monotonic()
                if now > next_check:
                    next_check = now + POLL_S
                    self._check_times(now)
        return self.result

    def _send(self, client: Client) -> None:
        """Send the next request, or close the connection if the time is over."""
        client.sent_at = time.monotonic()
        if client.sent_at >= self._ends_at:
            client.close()
            return
        try:
            if client.connection is None:
                client.connection = socket.create_connection(self.address, TIMEOUT_S)
                client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._epoll.register(client.connection, select.EPOLLIN)
            client.connection.sendall(self.expected[client.index % len(self.expected)].request)
            self._waiting[client.connection.fileno()] = client
        except OSError:
            self._lose(client)

    def _lose(self, client: Client) -> None:
        """Count a lost response; the client sends its next request on a new connection after a pause."""
        self.result.lost += 1
        client.index += 1
        if client.connection is not None:
            self._waiting.pop(client.connection.fileno(), None)
        client.close()
        self._pause(client, POLL_S)

    def _pause(self, client: Client, seconds: float) -> None:
        client.paused_until = time.monotonic() + seconds
        self._paused.append(client)

    def _check_times(self, now: float) -> None:
        """Count responses that are too late as lost, and let clients continue whose pause has ended."""
        for client in [client for client in self._waiting.values() if now - client.sent_at > TIMEOUT_S]:
            self._lose(client)
        ready = [client for client in self._paused if client.paused_until <= now or now >= self._ends_at]
        self._paused = [client for client in self._paused if client not in ready]
        for client in ready:
            self._send(client)

    def _receive(self, client: Client) -> None:
        """Read from the connection of a client; process the response when it is complete."""
        assert client.connection is not None
        try:
            received = client.connection.recv(65536)
        except OSError:
            received = b""
        if not received:
            self._lose(client)
            return
        client.received += received
        text, blank, content = client.received.partition(b"\r\n\r\n")
        if blank:
            head = self._heads.get(text) or self._parse_head(text)
            if len(content) >= head.length:
                self._compare(client, head, content)

    def _parse_head(self, text: bytes) -> Head:
        length, retry_after = CONTENT_LENGTH.search(text), RETRY_AFTER.search(text)
        head = Head(
            int(text[9:12]),
            int(length[1]) if length else 0,
            int(retry_after[1]) if retry_after else 1,
            b"connection: close" in text,
        )
        if len(self._heads) < MAX_HEADS:
            self._heads[text] = head
        return head

    def _compare(self, client: Client, head: Head, content: bytes) -> None:
        """Compare a complete response with the expected texts, and send the next request."""
        assert client.connection is not None
        seconds, expected = time.monotonic() - client.sent_at, self.expected[client.index % len(self.expected)]
        del self._waiting[client.connection.fileno()]
        client.received = b""
        client.index += 1
        if head.closes:
            client.close()
        if head.status in (429, 503):
            self.result.refused += 1
            self._pause(client, head.retry_after_s)
            return
        self.result.seconds.append(seconds)
        texts = self._parse_texts(content) if head.status == 200 else [f"status {head.status}"]
        if texts != expected.texts:
            self._count_wrong(texts, expected.texts)
        self._send(client)

    def _parse_texts(self, content: bytes) -> list[str]:
        """Return the texts of a response body, from the cache if the same bytes were parsed before."""
        texts = self._parsed.get(content)
        if texts is None:
            texts = [row["text"] for row in json.loads(content)["predictions"][0]]
            if len(self._parsed) < MAX_PARSED:
                self._parsed[content] = texts
        return texts

    def _count_wrong(self, texts: list[str], expected: list[str]) -> None:
        self.result.wrong["of another" if tuple(texts) in self._known_texts else "different"] += 1
        self.result.example = self.result.example or f"{texts} instead of {expected}"[:400]
