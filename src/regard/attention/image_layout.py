"""An image as a sequence in the order in which it is made, with the memory that each place may look at.

Local self-attention of the Image Transformer: Parmar et al. 2018, section 3.3. Positions are cut into query blocks; all
queries of a block share one memory block. In two dimensions a query block has `query` (rows, columns) of pixels and its
memory reaches `memory` (rows up, columns to both sides) further. Blocks are made in raster order, and in raster order
inside a block: so a pixel may look at what lies lower in the block on its left, which is finished, and never at a block
that is not begun. In one dimension blocks and memory are stretches of the raster order itself.

The places of a sequence are counted in the order of making, so "causal" means "not yet made".
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.mask_regions import Blocks
from regard.core.errors import ShapeError


class ImageBlocks1D(NamedTuple):
    """One dimension: blocks of `query` places in raster order, each with `memory` places before it."""

    length: int
    query: int
    memory: int

    @property
    def num_blocks(self) -> int:
        """How many there are."""
        return -(-self.length // self.query)

    def block_of(self, position: int) -> int:
        """The block that a place belongs to."""
        return position // self.query

    def bounds(self, block: int) -> tuple[int, int]:
        """The first place of a block, and the first behind it."""
        return block * self.query, min((block + 1) * self.query, self.length)

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places of queries (… t 1) and keys (… s) -> (… t s): is the key in the memory of the query's block?"""
        return Blocks(self.query, self.memory).allows(queries, keys)

    def raster_indices(self) -> Tensor:
        """Where each place is in raster order."""
        return torch.arange(self.length)


class ImageBlocks2D(NamedTuple):
    """Two dimensions: blocks of `query` (rows, columns), memory of `memory` (rows up, columns to both sides)."""

    height: int
    width: int
    query: tuple[int, int]
    memory: tuple[int, int]
    channels: int = 1  # places of a pixel, one after the other

    @property
    def length(self) -> int:
        """The length of the sequence."""
        return self.height * self.width * self.channels

    @property
    def block_grid(self) -> tuple[int, int]:
        """Blocks along each axis."""
        return -(-self.height // self.query[0]), -(-self.width // self.query[1])

    @property
    def num_blocks(self) -> int:
        """How many there are."""
        return self.block_grid[0] * self.block_grid[1]

    def block_of(self, position: int) -> int:
        """The block that a place belongs to."""
        row, column = (int(x) for x in self.locate(torch.tensor(position)))
        return row // self.query[0] * self.block_grid[1] + column // self.query[1]

    def bounds(self, block: int) -> tuple[int, int]:
        """The first place of a block, and the first behind it."""
        band, column = divmod(block, self.block_grid[1])
        top, left = band * self.query[0], column * self.query[1]
        high = min(self.query[0], self.height - top)
        first = top * self.width + left * high
        return first * self.channels, (first + high * min(self.query[1], self.width - left)) * self.channels

    def locate(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Places (…) -> the row and the column of the pixel of each; blocks at the borders may be smaller."""
        (high, wide), pixels = self.query, positions // self.channels
        top = pixels // (high * self.width) * high
        pixels = pixels - top * self.width  # inside the band of blocks that begins at row `top`
        high_here = (self.height - top).clamp(max=high)
        left = pixels // (high_here * wide) * wide
        pixels = pixels - left * high_here
        wide_here = (self.width - left).clamp(max=wide)
        return top + pixels // wide_here, left + pixels % wide_here

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places of queries (… t 1) and keys (… s) -> (… t s): is the key in the memory of the query's block?"""
        (high, wide), (above, beside) = self.query, self.memory
        row, column = self.locate(queries)
        top, left = row // high * high, column // wide * wide
        row, column = self.locate(keys)
        in_rows = (row >= top - above) & (row < top + high)
        return in_rows & (column >= left - beside) & (column < left + wide + beside)

    def raster_indices(self) -> Tensor:
        """Where each place is in raster order, channels last."""
        places = torch.arange(self.length)
        row, column = self.locate(places)
        return (row * self.width + column) * self.channels + places % self.channels


Layout = ImageBlocks1D | ImageBlocks2D


def image_blocks_1d(length: int, *, query: int, memory: int) -> ImageBlocks1D:
    """A checked `Line`."""
    if min(length, query) < 1 or memory < 0:
        raise ShapeError(
            f"line: places={length}, query={query}, memory={memory}; a block has a place at least, memory may be 0"
        )
    return ImageBlocks1D(length, query, memory)


def image_blocks_2d(
    height: int, width: int, *, query: tuple[int, int], memory: tuple[int, int], channels: int = 1
) -> ImageBlocks2D:
    """A checked `Canvas`."""
    if min(height, width, channels, *query) < 1 or min(memory) < 0:
        raise ShapeError(
            f"canvas: {height}x{width}x{channels}, query={query}, memory={memory}; sizes are at least 1, memory at "
            "least 0"
        )
    return ImageBlocks2D(height, width, query, memory, channels)


@lru_cache(maxsize=4096)  # of every block of a few images, asked for by every layer at every step
def visible_positions(layout: Layout, block: int) -> Tensor:
    """The places before a block that its queries may look at, in order."""
    first, _ = layout.bounds(block)
    before = torch.arange(first)
    return before[layout.allows(torch.tensor([[first]]), before)[0]]


@lru_cache(maxsize=4096)
def retained_positions(layout: Layout, block: int) -> Tensor:
    """The places before a block that it or any later block may look at: what a cache must hold when it begins."""
    later = [visible_positions(layout, number) for number in range(block, layout.num_blocks)]
    first, _ = layout.bounds(block)
    places = torch.cat(later).unique() if later else torch.arange(0)
    return places[places < first]
