"""Image layouts: an image as a sequence in generation order, and the memory that each position may attend to.

Local self-attention of the Image Transformer (Parmar et al. 2018, section 3.3). Positions are divided into query
blocks; all queries of a block share one memory block. In 2-D a query block has `query` (rows, columns) of pixels, and
its memory extends `memory` (rows above, columns on both sides) beyond the block. Blocks are generated in raster order,
and pixels in raster order inside a block. So a pixel may attend to lower rows of the finished block on its left, but
never to a block that is not yet generated. In 1-D, blocks and memory are ranges of the raster order itself.

Positions are numbered in generation order, so that a causal mask hides exactly the pixels that are not yet generated.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.mask_regions import Blocks
from regard.core.errors import ShapeError


class ImageBlocks1D(NamedTuple):
    """1-D layout: blocks of `query` positions in raster order, each with `memory` positions before it."""

    length: int
    query: int
    memory: int

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return -(-self.length // self.query)

    def block_of(self, position: int) -> int:
        """Return the block that a position belongs to."""
        return position // self.query

    def bounds(self, block: int) -> tuple[int, int]:
        """Return the first position of a block, and the first position after it."""
        return block * self.query, min((block + 1) * self.query, self.length)

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (… t 1) and keys (… s) -> bool (… t s), True if the key is in the block's memory."""
        return Blocks(self.query, self.memory).allows(queries, keys)

    def raster_indices(self) -> Tensor:
        """Return the raster index of each position."""
        return torch.arange(self.length)


class ImageBlocks2D(NamedTuple):
    """2-D layout: blocks of `query` (rows, columns) with a memory of `memory` (rows above, columns on both sides)."""

    height: int
    width: int
    query: tuple[int, int]
    memory: tuple[int, int]
    channels: int = 1  # consecutive positions of a pixel

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
        """The number of blocks."""
        return self.block_grid[0] * self.block_grid[1]

    def block_of(self, position: int) -> int:
        """Return the block that a position belongs to."""
        row, column = (int(x) for x in self.locate(torch.tensor(position)))
        return row // self.query[0] * self.block_grid[1] + column // self.query[1]

    def bounds(self, block: int) -> tuple[int, int]:
        """Return the first position of a block, and the first position after it."""
        block_row, block_column = divmod(block, self.block_grid[1])
        top, left = block_row * self.query[0], block_column * self.query[1]
        block_height = min(self.query[0], self.height - top)
        first = top * self.width + left * block_height
        end = first + block_height * min(self.query[1], self.width - left)
        return first * self.channels, end * self.channels

    def locate(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Positions (…) -> the row (…) and the column (…) of their pixels. Blocks at the borders may be smaller."""
        (max_height, max_width), pixels = self.query, positions // self.channels
        top = pixels // (max_height * self.width) * max_height
        pixels = pixels - top * self.width  # within the row of blocks that starts at pixel row `top`
        block_height = (self.height - top).clamp(max=max_height)
        left = pixels // (block_height * max_width) * max_width
        pixels = pixels - left * block_height
        block_width = (self.width - left).clamp(max=max_width)
        return top + pixels // block_width, left + pixels % block_width

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (… t 1) and keys (… s) -> bool (… t s), True if the key is in the block's memory."""
        (block_height, block_width), (above, sides) = self.query, self.memory
        row, column = self.locate(queries)
        top, left = row // block_height * block_height, column // block_width * block_width
        row, column = self.locate(keys)
        in_rows = (row >= top - above) & (row < top + block_height)
        return in_rows & (column >= left - sides) & (column < left + block_width + sides)

    def raster_indices(self) -> Tensor:
        """Return the raster index of each position, channels last."""
        positions = torch.arange(self.length)
        row, column = self.locate(positions)
        return (row * self.width + column) * self.channels + positions % self.channels


Layout = ImageBlocks1D | ImageBlocks2D


def image_blocks_1d(length: int, *, query: int, memory: int) -> ImageBlocks1D:
    """Return a checked `ImageBlocks1D`."""
    if min(length, query) < 1 or memory < 0:
        raise ShapeError(
            f"image_blocks_1d: length={length}, query={query}, memory={memory}; length and query are at least 1, "
            "memory at least 0"
        )
    return ImageBlocks1D(length, query, memory)


def image_blocks_2d(
    height: int, width: int, *, query: tuple[int, int], memory: tuple[int, int], channels: int = 1
) -> ImageBlocks2D:
    """Return a checked `ImageBlocks2D`."""
    if min(height, width, channels, *query) < 1 or min(memory) < 0:
        raise ShapeError(
            f"image_blocks_2d: {height}x{width}x{channels}, query={query}, memory={memory}; sizes are at least 1, "
            "memory at least 0"
        )
    return ImageBlocks2D(height, width, query, memory, channels)


@lru_cache(maxsize=4096)  # all blocks of a few images, needed by every layer at every step
def visible_positions(layout: Layout, block: int) -> Tensor:
    """Return the positions before a block that its queries may attend to, in order."""
    first, _ = layout.bounds(block)
    before = torch.arange(first)
    return before[layout.allows(torch.tensor([[first]]), before)[0]]


@lru_cache(maxsize=4096)
def retained_positions(layout: Layout, block: int) -> Tensor:
    """Return the positions before a block that this or a later block may attend to: the content of the KV cache."""
    visible = [visible_positions(layout, later_block) for later_block in range(block, layout.num_blocks)]
    first, _ = layout.bounds(block)
    positions = torch.cat(visible).unique() if visible else torch.arange(0)
    return positions[positions < first]
