"""Masks are descriptions, not tensors: who may look at whom. True = may look.

A mask says what it means (causal, a window, blocks, which keys are there) and becomes a tensor only at the kernel's edge.
Queries are the last `t` of `s` positions (bottom-right alignment), so a mask is right with a cache of any length.
Masks combine with `&`; printing one draws it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import ShapeError


class Window(NamedTuple):
    """How far a query may look back and ahead; None = without limit."""

    back: int | None
    ahead: int | None


class Blocks(NamedTuple):
    """Query blocks of `query` positions, each with `memory` positions before it (Parmar et al. 2018, section 3.3, 1-D)."""

    query: int
    memory: int


class Raster(NamedTuple):
    """Rectangular query blocks of an image in raster order, with `memory` (rows above, columns left and right) around
    them (Parmar et al. 2018, section 3.3, 2-D)."""

    height: int
    width: int
    query: tuple[int, int]
    memory: tuple[int, int]


class Mask(NamedTuple):
    """Who may look at whom; `Mask()` forbids nothing."""

    ordered: bool = False  # causal: no looking ahead
    window: Window | None = None
    blocks: Blocks | None = None
    raster: Raster | None = None
    keys: Tensor | None = None  # (b s) bool: keys that are there
    pairs: Tensor | None = None  # (b h t s) bool, or broadcastable to it

    @staticmethod
    def causal() -> Mask:
        """No looking ahead."""
        return Mask(ordered=True)

    @staticmethod
    def local(back: int | None = None, ahead: int | None = None) -> Mask:
        """No looking further than `back` positions back and `ahead` positions ahead."""
        for name, reach in (("back", back), ("ahead", ahead)):
            if reach is not None and reach < 0:
                raise ShapeError(f"Mask.local: {name}={reach} is negative; give the number of positions, or None for no limit")
        return Mask(window=Window(back, ahead))

    @staticmethod
    def block(query: int, memory: int) -> Mask:
        """1-D blocks: every query of a block sees the block and `memory` positions before it."""
        if query < 1 or memory < 0:
            raise ShapeError(f"Mask.block: query={query}, memory={memory}; a block has at least one query and no negative memory")
        return Mask(blocks=Blocks(query, memory))

    @staticmethod
    def image(height: int, width: int, *, query: tuple[int, int], memory: tuple[int, int]) -> Mask:
        """2-D blocks of an image in raster order; `memory` is (rows above, columns at each side)."""
        if min(height, width, *query) < 1 or min(memory) < 0:
            raise ShapeError(
                f"Mask.image: {height}x{width}, query={query}, memory={memory}; sizes are at least 1, memory at least 0"
            )
        return Mask(raster=Raster(height, width, query, memory))

    @staticmethod
    def lengths(lengths: Tensor, size: int | None = None) -> Mask:
        """Keys beyond each row's length are padding; `size` is the padded length (default: the longest)."""
        size = int(lengths.max()) if size is None else size
        return Mask(keys=torch.arange(size, device=lengths.device) < lengths[:, None])

    @staticmethod
    def present(keys: Tensor) -> Mask:
        """(b s) bool: which keys are there (padding on any side)."""
        if keys.dtype != torch.bool or keys.dim() != 2:
            raise ShapeError(f"Mask.present: needs a bool tensor (b s), True = is there; got {_kind(keys)}")
        return Mask(keys=keys)

    @staticmethod
    def explicit(pairs: Tensor) -> Mask:
        """A bool tensor (t s), (b t s) or (b h t s), True = may look."""
        if pairs.dtype != torch.bool or not 2 <= pairs.dim() <= 4:
            raise ShapeError(f"Mask.explicit: needs a bool tensor (t s), (b t s) or (b h t s), True = may look; got {_kind(pairs)}")
        if pairs.dim() == 3:
            pairs = pairs[:, None]
        return Mask(pairs=pairs.reshape((1,) * (4 - pairs.dim()) + tuple(pairs.shape)))

    def __and__(self, other: Mask) -> Mask:
        if self.blocks and other.blocks and self.blocks != other.blocks:
            raise ShapeError(f"cannot combine two block masks, {self.blocks} and {other.blocks}; use Mask.explicit for one of them")
        if self.raster and other.raster and self.raster != other.raster:
            raise ShapeError(f"cannot combine two image masks, {self.raster} and {other.raster}; use Mask.explicit for one of them")
        return Mask(
            ordered=self.ordered or other.ordered,
            window=_narrower(self.window, other.window),
            blocks=self.blocks or other.blocks,
            raster=self.raster or other.raster,
            keys=_both(self.keys, other.keys),
            pairs=_both(self.pairs, other.pairs),
        )

    @property
    def placed(self) -> bool:
        """Does it depend on where queries and keys stand?"""
        return self.ordered or self.window is not None or self.blocks is not None or self.raster is not None

    @property
    def only_causal(self) -> bool:
        """Causal and nothing else: the kernel has a flag for it."""
        return self == Mask(ordered=True) if self.keys is None and self.pairs is None else False

    def part(self, low: int, high: int, *, keys: int) -> Mask:
        """The mask of queries low..high and the first `keys` keys; what depends on places is said by `dense(first=)`."""
        pairs = self.pairs
        if pairs is not None:
            pairs = pairs[..., low:high, :] if pairs.shape[-2] > 1 else pairs
            pairs = pairs[..., :keys] if pairs.shape[-1] > 1 else pairs
        return self._replace(keys=None if self.keys is None else self.keys[:, :keys], pairs=pairs)

    def dense(self, t: int, s: int, *, first: int | None = None, device: torch.device | None = None) -> Tensor | None:
        """Bool, broadcastable to (b h t s), or None where nothing is forbidden. `first` is the first query's own place
        among the keys; queries are the last `t` of `s` unless it is given."""
        first = s - t if first is None else first
        self._fits(t, s)
        parts = []
        if self.placed:
            queries = torch.arange(first, first + t, device=device)[:, None]
            keys = torch.arange(s, device=device)
            places = self.allows(queries, keys)
            if not places.all():
                parts.append(places[None, None])
        if self.keys is not None:
            parts.append(self.keys[:, None, None, :])
        if self.pairs is not None:
            parts.append(self.pairs)
        if not parts:
            return None
        allowed = parts[0]
        for part in parts[1:]:
            allowed = allowed & part
        return allowed

    def allows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places of queries (… t 1) and keys (… s) -> (… t s): what the description of places allows."""
        shape = torch.broadcast_shapes(queries.shape, keys.shape)
        allowed = torch.ones(shape, dtype=torch.bool, device=keys.device)
        if self.ordered:
            allowed &= keys <= queries
        if self.window is not None:
            if self.window.back is not None:
                allowed &= keys >= queries - self.window.back
            if self.window.ahead is not None:
                allowed &= keys <= queries + self.window.ahead
        if self.blocks is not None:
            start = queries // self.blocks.query * self.blocks.query
            allowed &= (keys >= start - self.blocks.memory) & (keys < start + self.blocks.query)
        if self.raster is not None:
            allowed &= _inside(self.raster, queries, keys)
        return allowed

    def _fits(self, t: int, s: int) -> None:
        if self.keys is not None and self.keys.shape[1] != s:
            raise ShapeError(f"mask: its keys have length {self.keys.shape[1]} but there are {s} keys; build it for {s}")
        if self.pairs is not None:
            rows, columns = self.pairs.shape[-2:]
            if rows not in (1, t) or columns not in (1, s):
                raise ShapeError(f"mask: it is {rows} x {columns} but there are {t} queries and {s} keys; build it for (t s) = ({t} {s})")
        if self.raster is not None and s > self.raster.height * self.raster.width:
            raise ShapeError(f"mask: an image of {self.raster.height} x {self.raster.width} has no place for {s} keys; build it larger")

    def draw(self, t: int = 8, s: int | None = None) -> str:
        """Rows are queries, columns keys; ■ may look, · may not. One picture per batch row where they differ."""
        s = t if s is None else s
        allowed = self.dense(t, s)
        if allowed is None:
            allowed = torch.ones(1, 1, t, s, dtype=torch.bool)
        pictures = []
        for one in allowed.expand(*allowed.shape[:2], t, s).flatten(0, 1):
            pictures.append("\n".join(" ".join("■" if may else "·" for may in row) for row in one.tolist()))
        return "\n\n".join(pictures)

    def __str__(self) -> str:
        t, s = 8, 8
        if self.raster is not None:
            t = s = self.raster.height * self.raster.width
        if self.pairs is not None:
            t, s = self.pairs.shape[-2:]
        if self.keys is not None:
            s = self.keys.shape[1]
            t = s if self.pairs is None else t
        return self.draw(t, s)


def _inside(raster: Raster, queries: Tensor, keys: Tensor) -> Tensor:
    """Is the key's pixel in the memory block of the query's block?"""
    (q_height, q_width), (above, beside) = raster.query, raster.memory
    top = queries // raster.width // q_height * q_height
    left = queries % raster.width // q_width * q_width
    row, column = keys // raster.width, keys % raster.width
    tall = (row >= top - above) & (row < top + q_height)
    wide = (column >= left - beside) & (column < left + q_width + beside)
    return tall & wide


def _narrower(a: Window | None, b: Window | None) -> Window | None:
    if a is None or b is None:
        return a or b
    return Window(_least(a.back, b.back), _least(a.ahead, b.ahead))


def _least(a: int | None, b: int | None) -> int | None:
    known = [x for x in (a, b) if x is not None]
    return min(known) if known else None


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _kind(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
