"""Stopping rules: how many hypotheses may grow after others have ended, and when a source is finished."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class StoppingRule(Protocol):
    """Rule for the remaining capacity of a source and for comparing growing with ended hypotheses."""

    def remaining_capacity(self, capacity: Tensor, ended: Tensor) -> Tensor:
        """Capacity (s) and the number of hypotheses that ended in this step (s) -> remaining capacity (s)."""

    def num_compared(self, *, nbest: int, capacity: int) -> int:
        """Return the number of ended hypotheses with which growing ones are compared. The source is finished if no
        growing one beats the worst of them."""

    def ranking_length(self, lengths: Tensor, limits: Tensor) -> Tensor:
        """Current lengths (s) and maximum lengths (s) -> lengths at which growing hypotheses are ranked."""


class ShrinkingBeam:
    """An ended hypothesis keeps its slot in the beam. A growing one is ranked as if it reached the maximum length
    without further cost, which is an upper bound: no better hypothesis is missed."""

    def remaining_capacity(self, capacity: Tensor, ended: Tensor) -> Tensor:
        return capacity - ended

    def num_compared(self, *, nbest: int, capacity: int) -> int:
        return nbest

    def ranking_length(self, lengths: Tensor, limits: Tensor) -> Tensor:
        return limits + 1


class FullBeam:
    """An ended hypothesis frees its slot in the beam. The source is finished when two conditions hold: as many
    hypotheses have ended as the beam has slots, and no growing one ranks above any of them at its current length."""

    def remaining_capacity(self, capacity: Tensor, ended: Tensor) -> Tensor:
        return capacity

    def num_compared(self, *, nbest: int, capacity: int) -> int:
        return capacity

    def ranking_length(self, lengths: Tensor, limits: Tensor) -> Tensor:
        return lengths + 1
