"""Whose turn it is: clients in turn, those of a kind together, nobody passed over for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.serve.scheduler import FairQueue


@dataclass(eq=False)
class One:
    client: str
    kind: Any = "same"
    size: int = 1


def waiting(*ones: One) -> FairQueue[One]:
    turns: FairQueue[One] = FairQueue()
    for one in ones:
        turns.add(one)
    return turns


def test_those_of_one_kind_are_taken_together_up_to_so_many_inputs():
    first, other, large, last = One("a"), One("b", "another"), One("a", size=5), One("c", size=2)
    turns = waiting(first, other, large, last)
    assert turns.size == 9 and turns.take(3) == [first, last]
    assert turns.take(3) == [other] and turns.take(3) == [large]
    assert turns.take(3) == [] and turns.size == 0


def test_who_sends_much_waits_behind_their_own():
    many = [One("much", kind=None) for _ in range(3)]
    turns = waiting(*many)
    turns.add(late := One("little", kind=None))
    assert [turns.take(9) for _ in range(4)] == [[many[0]], [late], [many[1]], [many[2]]]


def test_one_who_leaves_is_not_taken():
    first, second = One("a"), One("b")
    turns = waiting(first, second)
    assert turns.remove(first) and not turns.remove(first)
    assert turns.first is second and turns.take(2) == [second] and not turns.remove(second)
