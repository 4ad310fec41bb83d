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
from regard.attention.image_layout import ImageBlocks1D, Layout, seen, wanted
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import Projected
from regard.core.errors import ShapeError
from regard.layers.kv_cache import KV
from regard.layers.multihead import HeadDims, MultiHeadAttention


class Piece(NamedTuple):
    """Some queries of one block, and what they look at: the memory of the block and its places up to the last."""

    queries: int
    memory: KV


class ImageKVCache(NamedTuple):
    """What is remembered of an image of which `place` places are made."""

    layout: Layout
    place: int
    near: KV  # what the block that is being made looks at: its memory, then its own places so far
    elsewhere: KV  # what only blocks to come look at
    whole: KV | None = None  # all places, as long as they are those of one chunk
    pieces: tuple[Piece, ...] = ()  # what the queries of the latest chunk look at

    @staticmethod
    def empty(layout: Layout, none: KV) -> ImageKVCache:
        """Nothing is made yet; `none` is a memory without columns."""
        return ImageKVCache(layout, 0, none, none)

    def append(self, new: KV) -> ImageKVCache:
        """The window with the keys of the next places behind it."""
        if self.place + new.length > self.layout.places:
            raise ShapeError(
                f"the image has {self.layout.places} places, but there are {self.place + new.length}; it is finished"
            )
        if self.place == 0 and new.length > 1:
            return self._replace(place=new.length, whole=new, pieces=())
        return self._begun()._grown(new)

    def _grown(self, new: KV) -> ImageKVCache:
        window, pieces, done = self, [], 0
        while done < new.length:
            count = min(_end(self.layout, window.place) - window.place, new.length - done)
            part = new if count == new.length else _columns(new, slice(done, done + count))
            near = window.near.append(part)
            pieces.append(Piece(count, near))
            window, done = window._replace(place=window.place + count, near=near)._turned(), done + count
        return window._replace(pieces=tuple(pieces))

    def _turned(self) -> ImageKVCache:
        """At the end of a block: the memory of the next one; what no place to come looks at is let go."""
        if self.place < _end(self.layout, self.place - 1) or self.place == self.layout.places:
            return self
        near, elsewhere = _kept(self.layout, self.layout.block_of(self.place - 1))
        both = self.elsewhere.append(self.near) if self.elsewhere.length else self.near
        return self._replace(near=_columns(both, near), elsewhere=_columns(both, elsewhere))

    def _begun(self) -> ImageKVCache:
        """The window as it would be if the places of `whole` had come one by one."""
        if self.whole is None:
            return self
        if self.place == self.layout.places:
            return self._replace(whole=None)
        block = self.layout.block_of(self.place)
        memory, later = seen(self.layout, block), _later(self.layout, block)
        own = torch.arange(self.layout.bounds(block)[0], self.place)
        near, elsewhere = (_columns(self.whole, places) for places in (torch.cat([memory, own]), later))
        return self._replace(near=near, elsewhere=elsewhere, whole=None)

    def _walk_tensors(self, change: Callable[[Tensor], Tensor]) -> ImageKVCache:
        """For core.tree."""
        near, elsewhere = self.near._walk_tensors(change), self.elsewhere._walk_tensors(change)
        whole = None if self.whole is None else self.whole._walk_tensors(change)
        return self._replace(near=near, elsewhere=elsewhere, whole=whole, pieces=())


class WindowHeads(MultiHeadAttention):
    """Multi-head attention inside an image that is made in the order of `layout`: block by block where the image is
    there from its first place on, over the window alone while it is being made."""

    def __init__(self, attend: Attend, widths: HeadDims, *, layout: Layout) -> None:
        super().__init__(attend, widths)
        self.layout = layout

    def look(self, q: Tensor, memory: KV | ImageKVCache, mask: Mask = NO_MASK) -> Tensor:
        """Queries of every head over the window that ends with them -> (b t d)."""
        if isinstance(memory, KV):
            return super().attend_to(q, memory, mask)
        joined: Tensor = self.o(over(self.attend, q, memory).transpose(1, 2).flatten(2))
        return joined


def over(attend: Attend, q: Tensor, window: ImageKVCache) -> Tensor:
    """Queries of the latest chunk (b h t d) -> what they see of the window (b h t e)."""
    if window.whole is not None:
        whole: Tensor = attend(q, window.whole.k, window.whole.v, causal(window.layout))
        return whole
    own = q.split([piece.queries for piece in window.pieces], dim=2)
    parts = [
        attend(queries, piece.memory.k, piece.memory.v, Mask.causal())
        for queries, piece in zip(own, window.pieces, strict=True)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def causal(layout: Layout) -> Mask:
    """Who may look at whom in an image that is made in the order of `layout`."""
    region = Mask.block(layout.query, layout.memory) if isinstance(layout, ImageBlocks1D) else Mask.painted(layout)
    return region & Mask.causal()


@lru_cache(maxsize=2**16)
def _end(layout: Layout, place: int) -> int:
    """The first place behind the block of a place."""
    return layout.bounds(layout.block_of(place))[1]


@lru_cache(maxsize=4096)
def _later(layout: Layout, block: int) -> Tensor:
    """The places before a block that it does not look at itself, but a later one may."""
    places = wanted(layout, block)
    return places[~torch.isin(places, seen(layout, block))]


@lru_cache(maxsize=4096)
def _kept(layout: Layout, block: int) -> tuple[Tensor, Tensor]:
    """At the end of a block: which columns of `elsewhere` and `near`, in this order, the next block looks at, and which
    only a later one."""
    held = torch.cat([_later(layout, block), seen(layout, block), torch.arange(*layout.bounds(block))])
    places, columns = held.sort()
    wishes = seen(layout, block + 1), _later(layout, block + 1)
    return columns[torch.searchsorted(places, wishes[0])], columns[torch.searchsorted(places, wishes[1])]


def _columns(memory: KV, which: Tensor | slice) -> KV:
    if isinstance(which, slice):
        return KV.of(Projected(memory.k.tensor[:, :, which]), memory.v[:, :, which])
    which = which.to(memory.keys.device)
    return KV.of(Projected(memory.k.tensor.index_select(2, which)), memory.v.index_select(2, which))
