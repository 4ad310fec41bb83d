"""Regions that a query may look at by its place: a sliding window, blocks of a line, blocks of an image."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Window(NamedTuple):
    """How far a query may look back and ahead; None = without limit."""

    back: int | None
    ahead: int | None

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places of queries (… t 1) and keys (… s) -> (… t s)."""
        allowed = torch.ones((), dtype=torch.bool, device=keys.device)
        if self.back is not None:
            allowed = keys >= queries - self.back
        if self.ahead is not None:
            allowed = allowed & (keys <= queries + self.ahead)
        return allowed


class Blocks(NamedTuple):
    """Query blocks of `query` positions, each with `memory` positions before it (Parmar et al. 2018, section 3.3, 1-D
    local attention)."""

    query: int
    memory: int

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places of queries (… t 1) and keys (… s) -> (… t s)."""
        start = queries // self.query * self.query
        return (keys >= start - self.memory) & (keys < start + self.query)


class Raster(NamedTuple):
    """Rectangular query blocks of an image whose places are counted in raster order, with `memory` (rows above, columns
    at each side) around them: the regions of Parmar et al. 2018, section 3.3, 2-D local attention. Made causal, it is
    causal in the raster order of the whole image; the paper makes images block by block (canvas.py)."""

    height: int
    width: int
    query: tuple[int, int]
    memory: tuple[int, int]

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places of queries (… t 1) and keys (… s) -> (… t s): is the key in the memory of the query's block?"""
        (high, wide), (above, beside) = self.query, self.memory
        top = queries // self.width // high * high
        left = queries % self.width // wide * wide
        row, column = keys // self.width, keys % self.width
        in_rows = (row >= top - above) & (row < top + high)
        in_columns = (column >= left - beside) & (column < left + wide + beside)
        return in_rows & in_columns


def intersect_windows(a: Window | None, b: Window | None) -> Window | None:
    """What both windows allow."""
    if a is None or b is None:
        return a if b is None else b
    return Window(_least(a.back, b.back), _least(a.ahead, b.ahead))


def _least(a: int | None, b: int | None) -> int | None:
    limits = [x for x in (a, b) if x is not None]
    return min(limits) if limits else None
