"""Masks M as descriptions, not tensors: the keys that each query may attend to. True = may attend.

A mask describes its meaning (causal, a window, blocks, present keys); kernels convert it to a tensor only if they need
one. Queries are the last `t` of `s` positions (bottom-right alignment), so that a mask is valid with a KV cache of any
length. Masks are combined with `&`, and drawn with `print`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.image_layout import ImageBlocks2D
from regard.attention.mask_regions import Blocks, Raster, Window, intersect_windows
from regard.core.errors import ShapeError
from regard.core.tracing import can_inspect, is_exporting

MAX_DRAWN_POSITIONS = 64  # of each axis in a printed mask


class Mask(NamedTuple):
    """The keys that each query may attend to. `Mask()` allows everything.

    >>> print(Mask.causal().draw(4))
    ■ · · ·
    ■ ■ · ·
    ■ ■ ■ ·
    ■ ■ ■ ■
    >>> print((Mask.causal() & Mask.local(back=1)).draw(2, 5))       # two queries, three cached keys
    · · ■ ■ ·
    · · · ■ ■
    >>> print(Mask.lengths(torch.tensor([2, 3])))
    ■ ■ ·
    ■ ■ ·
    ■ ■ ·
    <BLANKLINE>
    ■ ■ ■
    ■ ■ ■
    ■ ■ ■
    """

    is_causal: bool = False  # no key after the query
    window: Window | None = None
    blocks: Blocks | None = None
    raster: Raster | None = None
    keys: Tensor | None = None  # (b s) bool: keys that are present
    pairs: Tensor | None = None  # (b h t s) bool, or broadcastable to it
    start: Tensor | None = None  # (b): keys before it are padding on the left; positions are counted from it
    layout: ImageBlocks2D | None = None  # an image in generation order

    @staticmethod
    def causal() -> Mask:
        """Forbid keys after the query."""
        return CAUSAL

    @staticmethod
    def local(back: int | None = None, ahead: int | None = None) -> Mask:
        """Allow at most `back` positions before the query and `ahead` positions after it; None = no limit."""
        for name, reach in (("back", back), ("ahead", ahead)):
            if reach is not None and reach < 0:
                raise ShapeError(
                    f"Mask.local: {name}={reach} is negative; give a number of positions, or None for no limit"
                )
        return Mask(window=Window(back, ahead))

    @staticmethod
    def block(query: int, memory: int) -> Mask:
        """1-D blocks: every query of a block attends to the block and to `memory` positions before it."""
        if query < 1 or memory < 0:
            raise ShapeError(f"Mask.block: query={query}, memory={memory}; query must be at least 1, memory at least 0")
        return Mask(blocks=Blocks(query, memory))

    @staticmethod
    def image(height: int, width: int, *, query: tuple[int, int], memory: tuple[int, int]) -> Mask:
        """2-D blocks of an image in raster order; `memory` is (rows above, columns on each side)."""
        if min(height, width, *query) < 1 or min(memory) < 0:
            raise ShapeError(
                f"Mask.image: {height}x{width}, query={query}, memory={memory}; sizes are at least 1, memory at least 0"
            )
        return Mask(raster=Raster(height, width, query, memory))

    @staticmethod
    def image_blocks(layout: ImageBlocks2D) -> Mask:
        """2-D blocks of an image in generation order (image_layout.py)."""
        return Mask(layout=layout)

    @staticmethod
    def lengths(lengths: Tensor, size: int | None = None) -> Mask:
        """Keys beyond the length of each row are padding; `size` is the padded length (default: the maximum)."""
        if lengths.dim() != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise ShapeError(
                f"Mask.lengths: needs an integer tensor (b), one length per row; got {_dtype_and_shape(lengths)}"
            )
        if lengths.device.type == "cpu" and can_inspect(lengths) and lengths.numel() and int(lengths.min()) < 0:
            raise ShapeError(f"Mask.lengths: length {int(lengths.min())} is negative; give 0 for a row without keys")
        if size is None:
            if lengths.numel() and not can_inspect(lengths):
                raise ShapeError("Mask.lengths: the lengths have no values here; give the padded length: size=")
            size = int(lengths.max()) if lengths.numel() else 0
        if isinstance(size, int) and size < 0:
            raise ShapeError(f"Mask.lengths: size={size} is negative; give the padded length")
        return Mask(keys=torch.arange(size, device=lengths.device) < lengths[:, None])

    @staticmethod
    def present(keys: Tensor) -> Mask:
        """(b s) bool: the keys that are present (padding on any side)."""
        if keys.dtype != torch.bool or keys.dim() != 2:
            raise ShapeError(f"Mask.present: needs a bool tensor (b s), True = present; got {_dtype_and_shape(keys)}")
        return Mask(keys=keys)

    @staticmethod
    def explicit(pairs: Tensor) -> Mask:
        """A bool tensor (t s), (b t s) or (b h t s), True = may attend."""
        if pairs.dtype != torch.bool or not 2 <= pairs.dim() <= 4:
            raise ShapeError(
                "Mask.explicit: needs a bool tensor (t s), (b t s) or (b h t s), True = may attend; "
                f"got {_dtype_and_shape(pairs)}"
            )
        if pairs.dim() == 3:
            pairs = pairs[:, None]
        return Mask(pairs=pairs.reshape((1,) * (4 - pairs.dim()) + tuple(pairs.shape)))

    @staticmethod
    def left_padded(start: Tensor) -> Mask:
        """The first `start` (b) keys of each row are padding on the left; its positions are counted from there."""
        if start.dim() != 1 or start.is_floating_point() or start.dtype == torch.bool:
            raise ShapeError(
                f"Mask.left_padded: needs an integer tensor (b), one start per row; got {_dtype_and_shape(start)}"
            )
        return Mask(start=start)

    def __and__(self, other: Mask) -> Mask:
        if self is NO_MASK or other is NO_MASK:  # the usual case in decoding, at every step of every layer
            return self if other is NO_MASK else other
        for a, b in ((self.blocks, other.blocks), (self.raster, other.raster), (self.layout, other.layout)):
            if a and b and a != b:
                raise ShapeError(f"cannot combine {a} with {b}; give one of them as Mask.explicit")
        return Mask(
            is_causal=self.is_causal or other.is_causal,
            window=intersect_windows(self.window, other.window),
            blocks=self.blocks or other.blocks,
            raster=self.raster or other.raster,
            keys=_and("keys", self.keys, other.keys),
            pairs=_and("pairs", self.pairs, other.pairs),
            start=_maximum(self.start, other.start),
            layout=self.layout or other.layout,
        )

    @property
    def depends_on_position(self) -> bool:
        """True if the mask depends on the positions of queries and keys."""
        return self.is_causal or self.is_local

    @property
    def is_local(self) -> bool:
        """True if the mask has a window or blocks."""
        return any(region is not None for region in (self.window, self.blocks, self.raster, self.layout))

    @property
    def only_causal(self) -> bool:
        """True if the mask is causal and nothing else; the fused kernel has a flag for that."""
        return self.is_causal and not self.is_local and self.keys is None and self.pairs is None and self.start is None

    def submask(self, low: int, high: int, *, keys: int) -> Mask:
        """Return the mask of queries low..high and the first `keys` keys; pass their `query_offset` to `dense`."""
        pairs = self.pairs
        if pairs is not None:
            pairs = pairs[..., low:high, :] if pairs.shape[-2] > 1 else pairs
            pairs = pairs[..., :keys] if pairs.shape[-1] > 1 else pairs
        return self._replace(keys=None if self.keys is None else self.keys[:, :keys], pairs=pairs)

    def dense(
        self, t: int, s: int, *, query_offset: int | None = None, device: torch.device | None = None
    ) -> Tensor | None:
        """Return the mask as a bool tensor, broadcastable to (b h t s), or None if everything is allowed.

        `query_offset` is the position of the first query among the keys; by default queries are the last `t` of `s`.
        """
        query_offset = s - t if query_offset is None else query_offset
        self._check_lengths(t, s)
        parts = []
        if self._may_forbid(query_offset, t, s):
            queries = torch.arange(query_offset, query_offset + t, device=device)[:, None]
            parts.append(self.allows(queries, torch.arange(s, device=device))[None, None])
        if self.keys is not None:
            parts.append(self.keys[:, None, None, :])
        if self.pairs is not None:
            parts.append(self.pairs)
        if self.start is not None:
            parts.append((torch.arange(s, device=device) >= self.start[:, None])[:, None, None, :])
        if not parts:
            return None
        allowed = parts[0]
        for part in parts[1:]:
            allowed = allowed & part
        return allowed

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries (… t 1) and keys (… s) -> bool (… t s): the part of the mask that positions decide."""
        allowed = torch.ones((), dtype=torch.bool, device=keys.device)
        if self.is_causal:
            allowed = keys <= queries
        for region in (self.window, self.blocks, self.raster, self.layout):
            if region is not None:
                allowed = allowed & region.allows(queries, keys)
        return allowed

    def _may_forbid(self, query_offset: int, t: int, s: int) -> bool:
        """Return False if certainly no position is forbidden, without building the tensor; always True for blocks."""
        if is_exporting() or t == 0 or s == 0:
            return is_exporting() and self.depends_on_position
        back, ahead = self.window or (None, None)
        ahead = 0 if self.is_causal else ahead
        last_query = query_offset + t - 1
        too_far = (back is not None and last_query > back) or (ahead is not None and s - 1 > query_offset + ahead)
        return too_far or any(region is not None for region in (self.blocks, self.raster, self.layout))

    def _check_lengths(self, t: int, s: int) -> None:
        if self.keys is not None and self.keys.shape[1] != s:
            raise ShapeError(f"mask: it is for {self.keys.shape[1]} keys but there are {s}; build it for {s} keys")
        if self.pairs is not None:
            rows, columns = self.pairs.shape[-2:]
            if rows not in (1, t) or columns not in (1, s):
                raise ShapeError(
                    f"mask: it is {rows} x {columns}, but there are {t} queries and {s} keys; build it for ({t} {s})"
                )
        if self.raster is not None and s > self.raster.height * self.raster.width:
            size = f"{self.raster.height} x {self.raster.width}"
            raise ShapeError(f"mask: an image of {size} has fewer than {s} positions; build it for a larger image")
        if self.layout is not None and s > self.layout.length:
            raise ShapeError(f"mask: {self.layout} has fewer than {s} positions; build it for a larger image")

    def check_batch(self, b: int, h: int) -> None:
        """Raise a ShapeError if the mask has tensors for another batch size or number of heads."""
        if self.keys is None and self.pairs is None and self.start is None:
            return
        batch_sizes = {x.shape[0] for x in (self.keys, self.pairs, self.start) if x is not None} - {1, b}
        if batch_sizes:
            raise ShapeError(f"mask: it has {max(batch_sizes)} rows but the batch {b}; build it for {b} rows, or for 1")
        heads = 1 if self.pairs is None else self.pairs.shape[1]
        if heads not in (1, h):
            raise ShapeError(f"mask: it has {heads} heads but the attention {h}; build it for {h} heads, or for 1")

    def draw(self, t: int = 8, s: int | None = None) -> str:
        """Draw the mask: rows are queries, columns keys, ■ allowed, · forbidden. One drawing per batch row and head."""
        s = t if s is None else s
        allowed = self.dense(t, s)
        if allowed is None:
            allowed = torch.ones(1, 1, t, s, dtype=torch.bool)
        drawings = []
        for table in allowed.expand(*allowed.shape[:2], t, s).flatten(0, 1):
            lines = [
                " ".join("■" if cell else "·" for cell in row)
                for row in table[:MAX_DRAWN_POSITIONS, :MAX_DRAWN_POSITIONS].tolist()
            ]
            drawings.append("\n".join(lines))
        return "\n\n".join(drawings)

    def _join(self, other: Mask, *, shared: bool) -> Mask:
        """Concatenate two masks along the batch, for core.state_tree.

        Keys of unequal length are padded with absent keys: on the right for the keys of a source (`shared`), else on
        the left.
        """
        if self[:4] != other[:4] or self._tensors().keys() != other._tensors().keys():
            raise ValueError(
                f"two masks cannot be joined: one has {self._fields_in_use()}, the other {other._fields_in_use()}"
            )
        first, second = self._tensors(), other._tensors()
        if self.keys is not None and other.keys is not None:
            length = max(self.keys.shape[1], other.keys.shape[1])
            first["keys"], second["keys"] = (
                pad(x, (0, length - x.shape[1]) if shared else (length - x.shape[1], 0))
                for x in (self.keys, other.keys)
            )
        return Mask(**{**self._asdict(), **{name: torch.cat([first[name], second[name]]) for name in first}})

    def _tensors(self) -> dict[str, Tensor]:
        return {name: part for name, part in self._asdict().items() if isinstance(part, Tensor)}

    def _fields_in_use(self) -> str:
        return (
            ", ".join(name for name, part in self._asdict().items() if part is not None and part is not False)
            or "nothing"
        )

    def __str__(self) -> str:
        t, s = 8, 8
        if self.raster is not None:
            t = s = self.raster.height * self.raster.width
        if self.keys is not None:
            t = s = self.keys.shape[1]
        if self.pairs is not None:
            t, s = (size if size > 1 else default for size, default in zip(self.pairs.shape[-2:], (t, s), strict=True))
        return self.draw(t, s)


NO_MASK = Mask()  # allows everything
CAUSAL = Mask(is_causal=True)


def _maximum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return torch.maximum(a, b)


def _and(name: str, a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    for size_a, size_b in zip(a.shape, b.shape, strict=True):
        if size_a != size_b and 1 not in (size_a, size_b):
            raise ShapeError(f"cannot combine masks whose {name} are {tuple(a.shape)} and {tuple(b.shape)}")
    return a & b


def _dtype_and_shape(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
