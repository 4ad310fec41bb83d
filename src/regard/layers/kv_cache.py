"""Key/value cache of one attention layer, split into heads. An empty cache has length zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.kernels.short_keys import padded_length
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import ProjectedKeys
from regard.core.state_tree import map_tensors
from regard.core.tracing import is_exporting

COLUMNS_PER_SPARE = 16  # a copied cache gets one spare column per this many columns


class CacheOwner:
    """Number of used columns of a cache's tensors. Only the state that owns the last column may extend the cache in
    place; any other state copies first."""

    def __init__(self, used: int) -> None:
        self.used = used


class KV(NamedTuple):
    """Keys and values of one attention layer. It is immutable, though a longer one may share its tensors."""

    keys: Tensor  # (b h n d), projected for the layer's score; columns from `length` on are spare, and finite
    values: Tensor  # (b h n e)
    length: int
    mask: Mask = NO_MASK  # excludes padding
    owner: CacheOwner | None = None

    @staticmethod
    def of(k: ProjectedKeys, v: Tensor, mask: Mask = NO_MASK) -> KV:
        """Keys (b h s d), projected by `Attend.project`, and values (b h s e), all in use."""
        return KV(k.tensor, v, k.tensor.shape[2], mask)

    @property
    def k(self) -> ProjectedKeys:
        """(b h s d)."""
        return ProjectedKeys(_first(self.keys, self.length))

    @property
    def v(self) -> Tensor:
        """(b h s e)."""
        return _first(self.values, self.length)

    @property
    def position(self) -> Tensor | int:
        """Position of the next column; one per row (b) if rows are padded on the left."""
        return self.length if self.mask.start is None else self.length - self.mask.start

    def append(self, new: KV) -> KV:
        """Return the cache extended by `new`; without gradients it is written into spare columns."""
        if self.length == 0:
            return new
        if new.keys.requires_grad or self.keys.requires_grad or is_exporting():
            keys = torch.cat([self.k.tensor, new.k.tensor], dim=2)
            return KV.of(ProjectedKeys(keys), torch.cat([self.v, new.v], dim=2), self.mask)
        return self.extend(new.k, new.v)

    def extend(self, projected: ProjectedKeys, v: Tensor) -> KV:
        """Return the cache extended by keys (b h t d) and values (b h t e), without gradients. Its length is padded to
        full vectors, over which attention is fast."""
        k = projected.tensor
        keys, values, owner, length = self.keys, self.values, self.owner, self.length + k.shape[2]
        if owner is None or owner.used != self.length or length > keys.shape[2] or not _writable(keys):
            columns = padded_length(length + length // COLUMNS_PER_SPARE)
            keys, values = (_wider(x, new, columns) for x, new in ((keys, k), (values, v)))
            owner = CacheOwner(self.length)
        keys.narrow(2, self.length, k.shape[2]).copy_(k)
        values.narrow(2, self.length, v.shape[2]).copy_(v)
        owner.used = length
        return KV(keys, values, length, self.mask, owner)

    def _walk_tensors(self, change: Callable[[Tensor], Tensor]) -> KV:
        """Implements core.state_tree. A changed cache is a copy with its own owner."""
        keys = change(self.keys)
        if keys is self.keys:
            return self
        owner = None if _shares_storage(keys, self.keys) else CacheOwner(self.length)
        mask = self.mask if self.mask is NO_MASK else map_tensors(self.mask, change)
        return KV(keys, change(self.values), self.length, mask, owner)

    def _join(self, other: KV, *, shared: bool) -> KV:
        """Implements core.state_tree: concatenate the rows of two caches. The shorter one is padded: on the right if it
        belongs to a source (`shared`), else on the left, so that both continue at the same column."""
        if shared:
            length = max(self.length, other.length)
            present = [pad(_present(kv), (0, length - kv.length)) for kv in (self, other)]
            return KV(
                _stacked(self.k.tensor, other.k.tensor, length, left=False),
                _stacked(self.v, other.v, length, left=False),
                length,
                Mask(keys=torch.cat(present)),
            )
        (k, v, start), (other_k, other_v, other_start) = _without_unused(self), _without_unused(other)
        length = max(k.shape[2], other_k.shape[2])
        start = torch.cat([start + length - k.shape[2], other_start + length - other_k.shape[2]])
        return KV(
            _stacked(k, other_k, length, left=True),
            _stacked(v, other_v, length, left=True),
            length,
            Mask(start=start) if bool(start.any()) else NO_MASK,
            CacheOwner(length),
        )


def _first(x: Tensor, length: int) -> Tensor:
    """(b h n d) -> (b h s d), the used columns."""
    return x if x.shape[2] == length else x.narrow(2, 0, length)


def _writable(x: Tensor) -> bool:
    """Return False for inference tensors outside of inference mode, which may not be modified."""
    return torch.is_inference_mode_enabled() or not x.is_inference()


def _shares_storage(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _wider(x: Tensor, new: Tensor, columns: int) -> Tensor:
    """Return a copy of a cache (b h n …) with `columns` columns, the added ones zero; an empty cache takes its width
    from `new`."""
    if x.shape[2] == 0:
        return new.new_zeros(*new.shape[:2], columns, new.shape[3])
    return pad(x, (0, 0, 0, columns - x.shape[2]))


def _present(kv: KV) -> Tensor:
    """(b s) bool: True for columns that are not padding."""
    present = torch.ones(kv.keys.shape[0], kv.length, dtype=torch.bool, device=kv.keys.device)
    return present if kv.mask.keys is None else present & kv.mask.keys


def _without_unused(kv: KV) -> tuple[Tensor, Tensor, Tensor]:
    """Return keys, values and the start of each row, without leading columns that no remaining row uses."""
    if kv.mask.keys is not None or kv.mask.pairs is not None:
        raise ValueError("a cache with a key mask can only be joined as the cache of a source, inside Shared")
    k, v, start = kv.k.tensor, kv.v, kv.mask.start
    if start is None:
        return k, v, torch.zeros(k.shape[0], dtype=torch.long, device=k.device)
    unused = int(start.min()) if start.numel() else 0
    return k[:, :, unused:], v[:, :, unused:], start - unused


def _stacked(a: Tensor, b: Tensor, length: int, *, left: bool) -> Tensor:
    """(b h s d) and (b h s d) -> (b+b h n d), the shorter one padded with zeros on the left or right, n padded to full
    vectors."""
    rows, width = len(a) + len(b), max(a.shape[3], b.shape[3])  # an empty cache may have no width yet
    stacked = a.new_zeros(rows, a.shape[1], padded_length(length) if length else 0, width)
    for x, part in ((a, stacked[: len(a)]), (b, stacked[len(a) :])):
        if x.shape[2]:
            part.narrow(2, length - x.shape[2] if left else 0, x.shape[2]).copy_(x)
    return stacked
