"""Whose turn it is: one request of each client in turn, and with it those that can be answered in the same batch."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from itertools import zip_longest
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """What waits for its turn."""

    @property
    def client(self) -> str: ...

    @property
    def kind(self) -> Hashable:
        """Those of one kind are answered together; None: alone."""

    @property
    def size(self) -> int:
        """How many inputs it has."""


W = TypeVar("W", bound=Waiting)


class Turns(Generic[W]):
    """A line for each client. Whoever sends much waits behind their own requests, not others behind them."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[W]] = OrderedDict()
        self.size = 0  # inputs that wait

    @property
    def count(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def add(self, one: W) -> None:
        """The last of its client's line."""
        self._lines.setdefault(one.client, deque()).append(one)
        self.size += one.size

    def remove(self, one: W) -> bool:
        """Out of its line, wherever it stands; False where its turn has come already."""
        line = self._lines.get(one.client)
        if line is None or one not in line:
            return False
        line.remove(one)
        self._left(one)
        return True

    @property
    def first(self) -> W:
        """Whose turn it is."""
        return next(iter(self._lines.values()))[0]

    def take(self, most: int) -> list[W]:
        """The one whose turn it is, and others of its kind, up to so many inputs; nothing where nobody waits."""
        if not self._lines:
            return []
        first = self.first
        taken, room = [first], most - first.size
        if first.kind is not None:
            for one in self._in_turn():
                if room <= 0:
                    break
                if one is not first and one.kind == first.kind and one.size <= room:
                    taken.append(one)
                    room -= one.size
        self._lines.move_to_end(first.client)
        for one in taken:
            self._lines[one.client].remove(one)
            self._left(one)
        return taken

    def _in_turn(self) -> Iterator[W]:
        """All, the first of each client, then the second of each, and so on."""
        for row in zip_longest(*self._lines.values()):
            yield from (one for one in row if one is not None)

    def _left(self, one: W) -> None:
        self.size -= one.size
        if not self._lines[one.client]:
            del self._lines[one.client]
