"""When a source is over: what becomes of the places of hypotheses that ended, and when no other can rank higher."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class StoppingRule(Protocol):
    """How many hypotheses may grow after some have ended, and how long they must be compared with those."""

    def remaining_capacity(self, capacity: Tensor, ended: Tensor) -> Tensor:
        """How many hypotheses a source may have (s), how many ended just now (s) -> how many it may have then."""

    def num_compared(self, *, nbest: int, capacity: int) -> int:
        """With how many of the ended a growing one is compared: the source is over when it beats none of them."""

    def ranking_length(self, lengths: Tensor, limits: Tensor) -> Tensor:
        """Tokens so far (s) and the greatest length (s) -> the length at which a growing one is ranked for that."""


class ShrinkingBeam:
    """A hypothesis that ends keeps its place. A growing one is ranked as if it went on to the greatest length for
    nothing, which is more than it can reach: stopping loses nothing."""

    def remaining_capacity(self, capacity: Tensor, ended: Tensor) -> Tensor:
        return capacity - ended

    def num_compared(self, *, nbest: int, capacity: int) -> int:
        return nbest

    def ranking_length(self, lengths: Tensor, limits: Tensor) -> Tensor:
        return limits + 1


class FullBeam:
    """A hypothesis that ends leaves its place to another. The source is over when as many have ended as it has places
    and the best growing one, ranked as it stands, is no better than any of them."""

    def remaining_capacity(self, capacity: Tensor, ended: Tensor) -> Tensor:
        return capacity

    def num_compared(self, *, nbest: int, capacity: int) -> int:
        return capacity

    def ranking_length(self, lengths: Tensor, limits: Tensor) -> Tensor:
        return lengths + 1
