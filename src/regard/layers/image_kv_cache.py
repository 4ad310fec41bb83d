"""A cache that holds no more of an image than what is yet to be looked at, and attention over it.

A model of an image in the order of making (attention/image_layout.py) needs of the past only the memory of the block that is
being made, and what blocks to come may look at. When a block is finished, keys that no later place can see are let go.
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
    """Some queries of one block, and what they look at: the memory of the block and its places up to the last."""

    num_queries: int
    kv: KV


class ImageKVCache(NamedTuple):
    """What is remembered of an image of which `place` places are made."""

    layout: Layout
    position: int
    current: KV  # what the block that is being made looks at: its memory, then its own places so far
    later: KV  # what only blocks to come look at
    full: KV | None = None  # all places, as long as they are those of one chunk
    chunks: tuple[QueryChunk, ...] = ()  # what the queries of the latest chunk look at

    @staticmethod
    def empty(layout: Layout, empty_kv: KV) -> ImageKVCache:
        """Nothing is made yet; `none` is a memory without columns."""
        return ImageKVCache(layout, 0, empty_kv, empty_kv)

    def append(self, new: KV) -> ImageKVCache:
        """The window with the keys of the next places behind it."""
        if self.position + new.length > self.layout.length:
            raise ShapeError(
                f"the image has {self.layout.length} places, but there are {self.position + new.length}; it is finished"
            )
        if self.position == 0 and new.length > 1:
            return self._replace(position=new.length, full=new, chunks=())
        return self._begun()._grown(new)

    def _grown(self, new: KV) -> ImageKVCache:
        window, pieces, done = self, [], 0
        while done < new.length:
            count = min(_end(self.layout, window.position) - window.position, new.length - done)
            part = new if count == new.length else _columns(new, slice(done, done + count))
            near = window.current.append(part)
            pieces.append(QueryChunk(count, near))
            window, done = window._replace(position=window.position + count, current=near)._turned(), done + count
        return window._replace(chunks=tuple(pieces))

    def _turned(self) -> ImageKVCache:
        """At the end of a block: the memory of the next one; what no place to come looks at is let go."""
        if self.position < _end(self.layout, self.position - 1) or self.position == self.layout.length:
            return self
        near, elsewhere = _kept(self.layout, self.layout.block_of(self.position - 1))
        both = self.later.append(self.current) if self.later.length else self.current
        return self._replace(current=_columns(both, near), later=_columns(both, elsewhere))

    def _begun(self) -> ImageKVCache:
        """The window as it would be if the places of `whole` had come one by one."""
        if self.full is None:
            return self
        if self.position == self.layout.length:
            return self._replace(full=None)
        block = self.layout.block_of(self.position)
        memory, later = visible_positions(self.layout, block), _later(self.layout, block)
        own = torch.arange(self.layout.bounds(block)[0], self.position)
        near, elsewhere = (_columns(self.full, places) for places in (torch.cat([memory, own]), later))
        return self._replace(current=near, later=elsewhere, full=None)

    def _walk_tensors(self, change: Callable[[Tensor], Tensor]) -> ImageKVCache:
        """For core.tree."""
        near, elsewhere = self.current._walk_tensors(change), self.later._walk_tensors(change)
        whole = None if self.full is None else self.full._walk_tensors(change)
        return self._replace(current=near, later=elsewhere, full=whole, chunks=())


class ImageMultiHeadAttention(MultiHeadAttention):
    """Multi-head attention inside an image that is made in the order of `layout`: block by block where the image is
    there from its first place on, over the window alone while it is being made."""

    def __init__(self, attend: Attend, dims: HeadDims, *, layout: Layout) -> None:
        super().__init__(attend, dims)
        self.layout = layout

    def attend_to(self, q: Tensor, cache: KV | ImageKVCache, mask: Mask = NO_MASK) -> Tensor:
        """Queries of every head over the window that ends with them -> (b t d)."""
        if isinstance(cache, KV):
            return super().attend_to(q, cache, mask)
        joined: Tensor = self.o(attend_image_cache(self.attend, q, cache).transpose(1, 2).flatten(2))
        return joined


def attend_image_cache(attend: Attend, q: Tensor, cache: ImageKVCache) -> Tensor:
    """Queries of the latest chunk (b h t d) -> what they see of the window (b h t e)."""
    if cache.full is not None:
        whole: Tensor = attend(q, cache.full.k, cache.full.v, causal_image_mask(cache.layout))
        return whole
    own = q.split([piece.num_queries for piece in cache.chunks], dim=2)
    parts = [
        attend(queries, piece.kv.k, piece.kv.v, Mask.causal()) for queries, piece in zip(own, cache.chunks, strict=True)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def causal_image_mask(layout: Layout) -> Mask:
    """Who may look at whom in an image that is made in the order of `layout`."""
    region = Mask.block(layout.query, layout.memory) if isinstance(layout, ImageBlocks1D) else Mask.image_blocks(layout)
    return region & Mask.causal()


@lru_cache(maxsize=2**16)
def _end(layout: Layout, place: int) -> int:
    """The first place behind the block of a place."""
    return layout.bounds(layout.block_of(place))[1]


@lru_cache(maxsize=4096)
def _later(layout: Layout, block: int) -> Tensor:
    """The places before a block that it does not look at itself, but a later one may."""
    places = retained_positions(layout, block)
    return places[~torch.isin(places, visible_positions(layout, block))]


@lru_cache(maxsize=4096)
def _kept(layout: Layout, block: int) -> tuple[Tensor, Tensor]:
    """At the end of a block: which columns of `elsewhere` and `near`, in this order, the next block looks at, and which
    only a later one."""
    held = torch.cat([_later(layout, block), visible_positions(layout, block), torch.arange(*layout.bounds(block))])
    places, columns = held.sort()
    wishes = visible_positions(layout, block + 1), _later(layout, block + 1)
    return columns[torch.searchsorted(places, wishes[0])], columns[torch.searchsorted(places, wishes[1])]


def _columns(memory: KV, which: Tensor | slice) -> KV:
    if isinstance(which, slice):
        return KV.of(ProjectedKeys(memory.k.tensor[:, :, which]), memory.v[:, :, which])
    which = which.to(memory.keys.device)
    return KV.of(ProjectedKeys(memory.k.tensor.index_select(2, which)), memory.v.index_select(2, which))
