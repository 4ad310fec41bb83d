"""Clients of a server, many at a time in one process: each sends a request, waits for the answer, compares it with what
the run answers alone, and sends the next."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
AGAIN = re.compile(rb"retry-after: *(\d+)", re.IGNORECASE)
PATIENCE = 120.0  # seconds after which an answer is lost


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
    wrong: Counter[str] = field(default_factory=Counter)  # of which "of another": somebody else's answer
    example: str = ""  # of what is wrong

    def worst(self, share: float) -> float:
        """The time within which this share of the requests was answered."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def request(address: tuple[str, int], verb: str, body: bytes) -> bytes:
    """The bytes of a request to a verb."""
    head = f"POST /v1/{verb} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def load(address: tuple[str, int], asked: list[Asked], *, clients: int, seconds: float) -> Heard:
    """So many clients for so long; each begins with another of the requests."""
    heard = Heard()
    answers = {tuple(each.wanted) for each in asked}
    ends = time.monotonic() + seconds

    async def client(number: int) -> None:
        streams = None
        while time.monotonic() < ends:
            one = asked[number % len(asked)]
            number += 1
            begun = time.monotonic()
            try:
                streams = streams or await asyncio.open_connection(*address)
                streams[1].write(one.content)
                head, content = await asyncio.wait_for(_answer(streams[0]), PATIENCE)
            except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError):
                heard.lost += 1
                streams = None
                continue
            status = int(head[9:12])
            if b"connection: close" in head.lower():
                streams[1].close()
                streams = None
            if status in (429, 503):
                heard.refused += 1
                await asyncio.sleep(int(AGAIN.search(head)[1]))
                continue
            heard.seconds.append(time.monotonic() - begun)
            _compare(heard, one, status, content, answers)
        if streams:
            streams[1].close()

    async def all_of_them() -> None:
        await asyncio.gather(*(client(number) for number in range(clients)))

    asyncio.run(all_of_them())
    return heard


async def _answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    return head, await reader.readexactly(int(LENGTH.search(head)[1]))


def _compare(heard: Heard, one: Asked, status: int, content: bytes, answers: set[tuple[str, ...]]) -> None:
    found = [row["text"] for row in json.loads(content)["answers"][0]] if status == 200 else [f"status {status}"]
    if found != one.wanted:
        heard.wrong["of another" if tuple(found) in answers else "different"] += 1
        heard.example = heard.example or f"{found} for {one.wanted}"[:400]
