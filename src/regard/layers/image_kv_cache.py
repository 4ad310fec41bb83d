"""KV cache for images that keeps only the keys that are still needed, and attention over it.

While an image is generated in blocks (attention/image_layout.py), the current block needs its memory, and later blocks
need parts of the past. When a block is finished, keys that no later position can attend to are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import Attend
from regard.attention.image_layout import ImageBlocks1D, Layout, retained_positions, visible_positions
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import ProjectedKeys
from regard.core.errors import ShapeError
from regard.layers.kv_cache import KV
from regard.layers.multihead import HeadDims, MultiHeadAttention


class QueryChunk(NamedTuple):
    """Consecutive queries of one block and their keys: the memory of the block and its positions up to the last
    query."""

    num_queries: int
    kv: KV


class ImageKVCache(NamedTuple):
    """KV cache of an image of which `position` positions have been generated."""

    layout: Layout
    position: int
    current: KV  # keys of the current block: its memory, then its positions so far
    later: KV  # keys that only later blocks attend to
    full: KV | None = None  # all positions, if they came in one chunk
    chunks: tuple[QueryChunk, ...] = ()  # queries of the latest chunk and their keys

    @staticmethod
    def empty(layout: Layout, empty_kv: KV) -> ImageKVCache:
        """Return the cache before the first position; `empty_kv` is a KV cache without columns."""
        return ImageKVCache(layout, 0, empty_kv, empty_kv)

    def append(self, new: KV) -> ImageKVCache:
        """Return the cache extended by the keys of the next positions."""
        if self.position + new.length > self.layout.length:
            raise ShapeError(
                f"the image has {self.layout.length} positions but the cache would get {self.position + new.length}; "
                "the image is complete"
            )
        if self.position == 0 and new.length > 1:
            return self._replace(position=new.length, full=new, chunks=())
        return self._as_incremental()._extended(new)

    def _extended(self, new: KV) -> ImageKVCache:
        cache, chunks, done = self, [], 0
        while done < new.length:
            count = min(_block_end(self.layout, cache.position) - cache.position, new.length - done)
            part = new if count == new.length else _columns(new, slice(done, done + count))
            current = cache.current.append(part)
            chunks.append(QueryChunk(count, current))
            cache, done = (
                cache._replace(position=cache.position + count, current=current)._advanced_block(),
                done + count,
            )
        return cache._replace(chunks=tuple(chunks))

    def _advanced_block(self) -> ImageKVCache:
        """At the end of a block select the memory of the next one and drop keys that are not needed any more."""
        if self.position < _block_end(self.layout, self.position - 1) or self.position == self.layout.length:
            return self
        current, later = _columns_at_block_end(self.layout, self.layout.block_of(self.position - 1))
        available = self.later.append(self.current) if self.later.length else self.current
        return self._replace(current=_columns(available, current), later=_columns(available, later))

    def _as_incremental(self) -> ImageKVCache:
        """Return the cache as if the positions of `full` had been appended one by one."""
        if self.full is None:
            return self
        if self.position == self.layout.length:
            return self._replace(full=None)
        block = self.layout.block_of(self.position)
        memory, later = visible_positions(self.layout, block), _later_positions(self.layout, block)
        block_positions = torch.arange(self.layout.bounds(block)[0], self.position)
        current, later_kv = (
            _columns(self.full, positions) for positions in (torch.cat([memory, block_positions]), later)
        )
        return self._replace(current=current, later=later_kv, full=None)

    def _walk_tensors(self, change: Callable[[Tensor], Tensor]) -> ImageKVCache:
        """Implements core.state_tree."""
        current, later = self.current._walk_tensors(change), self.later._walk_tensors(change)
        full = None if self.full is None else self.full._walk_tensors(change)
        return self._replace(current=current, later=later, full=full, chunks=())


class ImageMultiHeadAttention(MultiHeadAttention):
    """Multi-head attention in an image generated in the order of `layout`: block by block if the input starts at the
    first position, otherwise over the cache."""

    def __init__(self, attend: Attend, dims: HeadDims, *, layout: Layout) -> None:
        super().__init__(attend, dims)
        self.layout = layout

    def attend_to(self, q: Tensor, cache: KV | ImageKVCache, mask: Mask = NO_MASK) -> Tensor:
        """Queries of every head (b h t d) at the end of the cache -> (b t d)."""
        if isinstance(cache, KV):
            return super().attend_to(q, cache, mask)
        joined: Tensor = self.o(attend_image_cache(self.attend, q, cache).transpose(1, 2).flatten(2))
        return joined


def attend_image_cache(attend: Attend, q: Tensor, cache: ImageKVCache) -> Tensor:
    """Queries of the latest chunk (b h t d) -> attended values (b h t e)."""
    if cache.full is not None:
        attended: Tensor = attend(q, cache.full.k, cache.full.v, causal_image_mask(cache.layout))
        return attended
    query_chunks = q.split([chunk.num_queries for chunk in cache.chunks], dim=2)
    parts = [
        attend(queries, chunk.kv.k, chunk.kv.v, Mask.causal())
        for queries, chunk in zip(query_chunks, cache.chunks, strict=True)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def causal_image_mask(layout: Layout) -> Mask:
    """Return the mask of an image generated in the order of `layout`."""
    region = Mask.block(layout.query, layout.memory) if isinstance(layout, ImageBlocks1D) else Mask.image_blocks(layout)
    return region & Mask.causal()


@lru_cache(maxsize=2**16)
def _block_end(layout: Layout, position: int) -> int:
    """Return the first position after the block of a position."""
    return layout.bounds(layout.block_of(position))[1]


@lru_cache(maxsize=4096)
def _later_positions(layout: Layout, block: int) -> Tensor:
    """Positions before a block that are not in its memory but may be in that of a later block."""
    positions = retained_positions(layout, block)
    return positions[~torch.isin(positions, visible_positions(layout, block))]


@lru_cache(maxsize=4096)
def _columns_at_block_end(layout: Layout, block: int) -> tuple[Tensor, Tensor]:
    """At the end of a block: columns of `later` and `current`, concatenated, that the next block attends to, and those
    that only later blocks attend to."""
    cached = torch.cat(
        [_later_positions(layout, block), visible_positions(layout, block), torch.arange(*layout.bounds(block))]
    )
    positions, columns = cached.sort()
    needed = visible_positions(layout, block + 1), _later_positions(layout, block + 1)
    return columns[torch.searchsorted(positions, needed[0])], columns[torch.searchsorted(positions, needed[1])]


def _columns(kv: KV, indices: Tensor | slice) -> KV:
    if isinstance(indices, slice):
        return KV.of(ProjectedKeys(kv.k.tensor[:, :, indices]), kv.v[:, :, indices])
    indices = indices.to(kv.keys.device)
    return KV.of(ProjectedKeys(kv.k.tensor.index_select(2, indices)), kv.v.index_select(2, indices))
