"""Regions that a query may attend to by its position: a sliding window, 1-D blocks, 2-D blocks of an image."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Window(NamedTuple):
    """The number of positions that a query may attend to before and after itself; None = no limit."""

    back: int | None
    ahead: int | None

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (… t 1) and keys (… s) -> bool (… t s), True = may attend."""
        allowed = torch.ones((), dtype=torch.bool, device=keys.device)
        if self.back is not None:
            allowed = keys >= queries - self.back
        if self.ahead is not None:
            allowed = allowed & (keys <= queries + self.ahead)
        return allowed


class Blocks(NamedTuple):
    """1-D local attention: blocks of `query` positions, each with a memory of `memory` positions before it.

    Parmar et al. 2018, section 3.3.
    """

    query: int
    memory: int

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (… t 1) and keys (… s) -> bool (… t s), True = may attend."""
        start = queries // self.query * self.query
        return (keys >= start - self.memory) & (keys < start + self.query)


class Raster(NamedTuple):
    """2-D local attention over an image in raster order: rectangular query blocks and the memory around them.

    `memory` is (rows above, columns on each side). These are the regions of Parmar et al. 2018, section 3.3. Combined
    with a causal mask, the order is the raster order of the entire image; the paper generates images block by block
    instead (image_layout.py).
    """

    height: int
    width: int
    query: tuple[int, int]
    memory: tuple[int, int]

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (… t 1) and keys (… s) -> bool (… t s), True if the key is in the block's memory."""
        (block_height, block_width), (above, sides) = self.query, self.memory
        top = queries // self.width // block_height * block_height
        left = queries % self.width // block_width * block_width
        row, column = keys // self.width, keys % self.width
        in_rows = (row >= top - above) & (row < top + block_height)
        in_columns = (column >= left - sides) & (column < left + block_width + sides)
        return in_rows & in_columns


def intersect_windows(a: Window | None, b: Window | None) -> Window | None:
    """Return the window that allows what both allow; None allows everything."""
    if a is None or b is None:
        return a if b is None else b
    return Window(_smaller_limit(a.back, b.back), _smaller_limit(a.ahead, b.ahead))


def _smaller_limit(a: int | None, b: int | None) -> int | None:
    limits = [x for x in (a, b) if x is not None]
    return min(limits) if limits else None
