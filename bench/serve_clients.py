"""Clients of a server, many at a time in one process: each sends a request, waits for the answer, compares it with what
the run answers alone, and sends the next. They share the machine with the server, so they cost little: plain sockets
and one epoll. Every answer is compared; one whose bytes came before is not parsed again."""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections import Counter
from dataclasses import dataclass, field

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
AGAIN = re.compile(rb"retry-after: *(\d+)", re.IGNORECASE)
PATIENCE = 120.0  # seconds after which an answer is lost
ASIDE = 0.5  # seconds between two looks at who has waited too long, or may come again
PARSED = 20_000  # answers that are known by their bytes, at most
HEADS = 1_000


@dataclass(frozen=True)
class Asked:
    """A request as it goes over the wire, and the answer that it must get."""

    content: bytes
    wanted: list[str]


@dataclass
class Heard:
    """What became of the requests."""

    seconds: list[float] = field(default_factory=list)  # of each that was answered
    refused: int = 0  # told to come again
    lost: int = 0  # no answer, or half of one
    wrong: Counter[str] = field(default_factory=Counter)  # of which "of another": the response of another request
    example: str = ""  # of what is wrong

    def worst(self, share: float) -> float:
        """The time within which this share of the requests was answered."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass(frozen=True)
class Head:
    """The first lines of an answer, read."""

    status: int
    length: int  # bytes behind it
    again: int  # seconds after which to come again
    closes: bool  # the connection ends with this answer


class Client:
    """One who asks: a connection, which request is under way, and what has come of its answer."""

    def __init__(self, number: int) -> None:
        self.number = number  # of the next request
        self.connection: socket.socket | None = None
        self.come = b""
        self.begun = 0.0
        self.rests = 0.0  # until when it does not ask

    def close(self) -> None:
        """Without a connection."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.come = None, b""


def request(address: tuple[str, int], verb: str, body: bytes) -> bytes:
    """The bytes of a request to a verb."""
    head = f"POST /v1/{verb} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def load(address: tuple[str, int], asked: list[Asked], *, clients: int, seconds: float) -> Heard:
    """So many clients for so long; each begins with another of the requests."""
    return Load(address, asked, seconds).run([Client(number) for number in range(clients)])


class Load:
    """Clients that ask a server until their time is over."""

    def __init__(self, address: tuple[str, int], asked: list[Asked], seconds: float) -> None:
        self.address, self.asked, self.heard = address, asked, Heard()
        self._answers = {tuple(each.wanted) for each in asked}
        self._seconds, self._ends = seconds, 0.0
        self._epoll = select.epoll()
        self._waiting: dict[int, Client] = {}  # for an answer, by the number of the connection
        self._resting: list[Client] = []
        self._heads: dict[bytes, Head] = {}
        self._parsed: dict[bytes, list[str]] = {}

    def run(self, clients: list[Client]) -> Heard:
        """Until the last of them has its answer."""
        self._ends = time.monotonic() + self._seconds
        with self._epoll:
            for client in clients:
                self._ask(client)
            aside = 0.0
            while self._waiting or self._resting:
                for number, _ in self._epoll.poll(ASIDE):
                    self._read(self._waiting[number])
                now = time.monotonic()
                if now > aside:
                    aside = now + ASIDE
                    self._look_aside(now)
        return self.heard

    def _ask(self, client: Client) -> None:
        """The next request, while there is time."""
        client.begun = time.monotonic()
        if client.begun >= self._ends:
            client.close()
            return
        try:
            if client.connection is None:
                client.connection = socket.create_connection(self.address, PATIENCE)
                client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._epoll.register(client.connection, select.EPOLLIN)
            client.connection.sendall(self.asked[client.number % len(self.asked)].content)
            self._waiting[client.connection.fileno()] = client
        except OSError:
            self._lose(client)

    def _lose(self, client: Client) -> None:
        """No answer to this request; on with the next, on a new connection, a little later."""
        self.heard.lost += 1
        client.number += 1
        if client.connection is not None:
            self._waiting.pop(client.connection.fileno(), None)
        client.close()
        self._rest(client, ASIDE)

    def _rest(self, client: Client, seconds: float) -> None:
        client.rests = time.monotonic() + seconds
        self._resting.append(client)

    def _look_aside(self, now: float) -> None:
        """Who has waited too long, and who may come again."""
        for client in [one for one in self._waiting.values() if now - one.begun > PATIENCE]:
            self._lose(client)
        ready = [client for client in self._resting if client.rests <= now or now >= self._ends]
        self._resting = [client for client in self._resting if client not in ready]
        for client in ready:
            self._ask(client)

    def _read(self, client: Client) -> None:
        """What has come; where it is all of an answer, that is compared, and the next is asked for."""
        assert client.connection is not None
        try:
            more = client.connection.recv(65536)
        except OSError:
            more = b""
        if not more:
            self._lose(client)
            return
        client.come += more
        text, blank, content = client.come.partition(b"\r\n\r\n")
        if blank:
            head = self._heads.get(text) or self._learn(text)
            if len(content) >= head.length:
                self._answered(client, head, content)

    def _learn(self, text: bytes) -> Head:
        length, again = LENGTH.search(text), AGAIN.search(text)
        head = Head(
            int(text[9:12]),
            int(length[1]) if length else 0,
            int(again[1]) if again else 1,
            b"connection: close" in text,
        )
        if len(self._heads) < HEADS:
            self._heads[text] = head
        return head

    def _answered(self, client: Client, head: Head, content: bytes) -> None:
        assert client.connection is not None
        seconds, asked = time.monotonic() - client.begun, self.asked[client.number % len(self.asked)]
        del self._waiting[client.connection.fileno()]
        client.come = b""
        client.number += 1
        if head.closes:
            client.close()
        if head.status in (429, 503):
            self.heard.refused += 1
            self._rest(client, head.again)
            return
        self.heard.seconds.append(seconds)
        found = self._texts(content) if head.status == 200 else [f"status {head.status}"]
        if found != asked.wanted:
            self._note_wrong(found, asked.wanted)
        self._ask(client)

    def _texts(self, content: bytes) -> list[str]:
        """The texts of an answer; bytes that came before say what they said then."""
        found = self._parsed.get(content)
        if found is None:
            found = [row["text"] for row in json.loads(content)["predictions"][0]]
            if len(self._parsed) < PARSED:
                self._parsed[content] = found
        return found

    def _note_wrong(self, found: list[str], wanted: list[str]) -> None:
        self.heard.wrong["of another" if tuple(found) in self._answers else "different"] += 1
        self.heard.example = self.heard.example or f"{found} for {wanted}"[:400]
