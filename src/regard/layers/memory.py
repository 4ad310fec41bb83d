"""Keys and values, projected and split into heads: what a query looks at. An empty cache is one of length zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

SPARE = 64  # columns that lie ready behind a cache, at least; and half as many again as it has


class Room:
    """Storage (b h room …) of a cache that grows in place. Only who stands at the end of its used columns may write."""

    def __init__(self, old: KV, length: int) -> None:
        self.k, self.v = (self._wider(x, length + max(SPARE, length // 2)) for x in (old.k, old.v))
        self.used = old.length

    @staticmethod
    def _wider(x: Tensor, columns: int) -> Tensor:
        made = x.new_empty(*x.shape[:2], columns, x.shape[3])
        made[:, :, : x.shape[2]] = x
        return made

    def takes(self, used: int, length: int) -> bool:
        """May a cache of `used` columns grow to `length` here?"""
        writable = torch.is_inference_mode_enabled() or not self.k.is_inference()
        return self.used == used and length <= self.k.shape[2] and writable

    def write(self, new: KV) -> KV:
        """`new` behind the used columns -> all of them."""
        first, self.used = self.used, self.used + new.length
        self.k[:, :, first : self.used] = new.k
        self.v[:, :, first : self.used] = new.v
        return KV(self.k[:, :, : self.used], self.v[:, :, : self.used], self)


class KV(NamedTuple):
    """The memory of one attention layer: a value, though a longer one may share its storage."""

    k: Tensor  # (b h s d), projected for the layer's score
    v: Tensor  # (b h s e)
    room: Room | None = None

    @property
    def length(self) -> int:
        return self.k.shape[2]

    def append(self, new: KV) -> KV:
        """The memory with `new` behind it; where no gradient is wanted, written into storage that lies ready."""
        if self.length == 0:
            return new
        if torch.is_grad_enabled():
            return KV(torch.cat([self.k, new.k], dim=2), torch.cat([self.v, new.v], dim=2))
        length = self.length + new.length
        room = self.room if self.room is not None and self.room.takes(self.length, length) else Room(self, length)
        return room.write(new)

    def _walk_tensors(self, change: Callable[[Tensor], Tensor]) -> KV:
        """For core.tree: a changed cache has no storage yet."""
        return KV(change(self.k), change(self.v))
