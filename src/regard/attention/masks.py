"""Masks are descriptions, not tensors: who may look at whom. True = may look.

A mask says what it means (causal, a window, blocks, which keys are there) and becomes a tensor only at the kernel's
edge. Queries are the last `t` of `s` positions (bottom-right alignment), so a mask is right with a cache of any length.
Masks combine with `&`; printing one draws it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.image_layout import ImageBlocks2D
from regard.attention.mask_regions import Blocks, Raster, Window, intersect_windows
from regard.core.errors import ShapeError
from regard.core.tracing import is_exporting

MAX_DRAWN_POSITIONS = 64  # places that a printed mask shows of each axis


class Mask(NamedTuple):
    """Who may look at whom; `Mask()` forbids nothing.

    >>> print(Mask.causal().draw(4))
    ■ · · ·
    ■ ■ · ·
    ■ ■ ■ ·
    ■ ■ ■ ■
    >>> print((Mask.causal() & Mask.local(back=1)).draw(2, 5))       # two queries, three keys in the cache
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

    is_causal: bool = False  # causal: no looking ahead
    window: Window | None = None
    blocks: Blocks | None = None
    raster: Raster | None = None
    keys: Tensor | None = None  # (b s) bool: keys that are there
    pairs: Tensor | None = None  # (b h t s) bool, or broadcastable to it
    start: Tensor | None = None  # (b): the keys before it are padding on the left; places are counted from it
    layout: ImageBlocks2D | None = None  # an image in the order in which it is made

    @staticmethod
    def causal() -> Mask:
        """No looking ahead."""
        return CAUSAL

    @staticmethod
    def local(back: int | None = None, ahead: int | None = None) -> Mask:
        """No looking further than `back` positions back and `ahead` positions ahead."""
        for name, reach in (("back", back), ("ahead", ahead)):
            if reach is not None and reach < 0:
                raise ShapeError(
                    f"Mask.local: {name}={reach} is negative; give a number of positions, or None: no limit"
                )
        return Mask(window=Window(back, ahead))

    @staticmethod
    def block(query: int, memory: int) -> Mask:
        """1-D blocks: every query of a block sees the block and `memory` positions before it."""
        if query < 1 or memory < 0:
            raise ShapeError(f"Mask.block: query={query}, memory={memory}; a block has a query, memory is not negative")
        return Mask(blocks=Blocks(query, memory))

    @staticmethod
    def image(height: int, width: int, *, query: tuple[int, int], memory: tuple[int, int]) -> Mask:
        """2-D blocks of an image, all places in raster order; `memory` is (rows above, columns at each side)."""
        if min(height, width, *query) < 1 or min(memory) < 0:
            raise ShapeError(
                f"Mask.image: {height}x{width}, query={query}, memory={memory}; sizes are at least 1, memory at least 0"
            )
        return Mask(raster=Raster(height, width, query, memory))

    @staticmethod
    def image_blocks(layout: ImageBlocks2D) -> Mask:
        """2-D blocks of an image whose places are counted in the order in which it is made: see canvas.py."""
        return Mask(layout=layout)

    @staticmethod
    def lengths(lengths: Tensor, size: int | None = None) -> Mask:
        """Keys beyond each row's length are padding; `size` is the padded length (default: the longest)."""
        if lengths.dim() != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise ShapeError(f"Mask.lengths: needs whole numbers (b), one per row; got {_kind(lengths)}")
        if size is None:
            size = int(lengths.max()) if lengths.numel() else 0
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
            raise ShapeError(
                f"Mask.explicit: needs a bool tensor (t s), (b t s) or (b h t s), True = may look; got {_kind(pairs)}"
            )
        if pairs.dim() == 3:
            pairs = pairs[:, None]
        return Mask(pairs=pairs.reshape((1,) * (4 - pairs.dim()) + tuple(pairs.shape)))

    @staticmethod
    def left_padded(start: Tensor) -> Mask:
        """The first `start` (b) keys of each row are padding on the left; the row's places are counted from there."""
        if start.dim() != 1 or start.is_floating_point() or start.dtype == torch.bool:
            raise ShapeError(f"Mask.starting: needs whole numbers (b), one per row; got {_kind(start)}")
        return Mask(start=start)

    def __and__(self, other: Mask) -> Mask:
        if self is NO_MASK or other is NO_MASK:  # the rule in decoding, at every step of every layer
            return self if other is NO_MASK else other
        for ours, theirs in ((self.blocks, other.blocks), (self.raster, other.raster), (self.layout, other.layout)):
            if ours and theirs and ours != theirs:
                raise ShapeError(f"cannot combine {ours} with {theirs}; give one of them as Mask.explicit")
        return Mask(
            is_causal=self.is_causal or other.is_causal,
            window=intersect_windows(self.window, other.window),
            blocks=self.blocks or other.blocks,
            raster=self.raster or other.raster,
            keys=_both("keys", self.keys, other.keys),
            pairs=_both("pairs", self.pairs, other.pairs),
            start=_later(self.start, other.start),
            layout=self.layout or other.layout,
        )

    @property
    def depends_on_position(self) -> bool:
        """Does it depend on where queries and keys stand?"""
        return self.is_causal or self.is_local

    @property
    def is_local(self) -> bool:
        """Is there a window, or are there blocks?"""
        return any(region is not None for region in (self.window, self.blocks, self.raster, self.layout))

    @property
    def only_causal(self) -> bool:
        """Causal and nothing else: the kernel has a flag for it."""
        return self.is_causal and not self.is_local and self.keys is None and self.pairs is None and self.start is None

    def submask(self, low: int, high: int, *, keys: int) -> Mask:
        """The mask of queries low..high and the first `keys` keys; their places are told to `dense` by `first`."""
        pairs = self.pairs
        if pairs is not None:
            pairs = pairs[..., low:high, :] if pairs.shape[-2] > 1 else pairs
            pairs = pairs[..., :keys] if pairs.shape[-1] > 1 else pairs
        return self._replace(keys=None if self.keys is None else self.keys[:, :keys], pairs=pairs)

    def dense(
        self, t: int, s: int, *, query_offset: int | None = None, device: torch.device | None = None
    ) -> Tensor | None:
        """Bool, broadcastable to (b h t s), or None where nothing is forbidden. `first` is the first query's own place
        among the keys; queries are the last `t` of `s` unless it is given."""
        query_offset = s - t if query_offset is None else query_offset
        self._fits(t, s)
        parts = []
        if self._forbids(query_offset, t, s):
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
        """Places of queries (… t 1) and keys (… s) -> (… t s): what the description of places allows."""
        allowed = torch.ones((), dtype=torch.bool, device=keys.device)
        if self.is_causal:
            allowed = keys <= queries
        for region in (self.window, self.blocks, self.raster, self.layout):
            if region is not None:
                allowed = allowed & region.allows(queries, keys)
        return allowed

    def _forbids(self, first: int, t: int, s: int) -> bool:
        """Could a place be forbidden? Without making the tensor, and always yes for blocks."""
        if is_exporting() or t == 0 or s == 0:
            return is_exporting() and self.depends_on_position
        back, ahead = self.window or (None, None)
        ahead = 0 if self.is_causal else ahead
        too_far = (back is not None and first + t - 1 > back) or (ahead is not None and s - 1 > first + ahead)
        return too_far or any(region is not None for region in (self.blocks, self.raster, self.layout))

    def _fits(self, t: int, s: int) -> None:
        if self.keys is not None and self.keys.shape[1] != s:
            raise ShapeError(
                f"mask: its keys have length {self.keys.shape[1]} but there are {s}; build it for {s} keys"
            )
        if self.pairs is not None:
            rows, columns = self.pairs.shape[-2:]
            if rows not in (1, t) or columns not in (1, s):
                raise ShapeError(
                    f"mask: it is {rows} x {columns}, with {t} queries and {s} keys; build it for ({t} {s})"
                )
        if self.raster is not None and s > self.raster.height * self.raster.width:
            size = f"{self.raster.height} x {self.raster.width}"
            raise ShapeError(f"mask: an image of {size} has no place for {s} keys; build it for a larger one")
        if self.layout is not None and s > self.layout.length:
            raise ShapeError(f"mask: {self.layout} has no place for {s} keys; build it for a larger one")

    def check_batch(self, b: int, h: int) -> None:
        """An error where its tensors are for another batch or number of heads."""
        if self.keys is None and self.pairs is None and self.start is None:
            return
        rows = {x.shape[0] for x in (self.keys, self.pairs, self.start) if x is not None} - {1, b}
        if rows:
            raise ShapeError(f"mask: it has {max(rows)} rows but the batch {b}; build it for {b} rows, or for one")
        heads = 1 if self.pairs is None else self.pairs.shape[1]
        if heads not in (1, h):
            raise ShapeError(f"mask: it has {heads} heads but the attention {h}; build it for {h} heads, or for one")

    def draw(self, t: int = 8, s: int | None = None) -> str:
        """Rows are queries, columns keys; ■ may look, · may not. One picture per row of the batch (and head)."""
        s = t if s is None else s
        allowed = self.dense(t, s)
        if allowed is None:
            allowed = torch.ones(1, 1, t, s, dtype=torch.bool)
        pictures = []
        for table in allowed.expand(*allowed.shape[:2], t, s).flatten(0, 1):
            lines = [
                " ".join("■" if may else "·" for may in row)
                for row in table[:MAX_DRAWN_POSITIONS, :MAX_DRAWN_POSITIONS].tolist()
            ]
            pictures.append("\n".join(lines))
        return "\n\n".join(pictures)

    def _join(self, other: Mask, *, shared: bool) -> Mask:
        """For core.tree: the rows of two masks one below the other. Keys of unequal length are padded with keys that
        are not there: on the right for the memory of a source (`shared`), else on the left."""
        if self[:4] != other[:4] or self._tensors().keys() != other._tensors().keys():
            raise ValueError(f"two masks cannot be joined: one has {self._kinds()}, the other {other._kinds()}")
        ours, theirs = self._tensors(), other._tensors()
        if self.keys is not None and other.keys is not None:
            longest = max(self.keys.shape[1], other.keys.shape[1])
            ours["keys"], theirs["keys"] = (
                pad(x, (0, longest - x.shape[1]) if shared else (longest - x.shape[1], 0))
                for x in (self.keys, other.keys)
            )
        return Mask(**{**self._asdict(), **{name: torch.cat([ours[name], theirs[name]]) for name in ours}})

    def _tensors(self) -> dict[str, Tensor]:
        return {name: part for name, part in self._asdict().items() if isinstance(part, Tensor)}

    def _kinds(self) -> str:
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
            t, s = (own if own > 1 else size for own, size in zip(self.pairs.shape[-2:], (t, s), strict=True))
        return self.draw(t, s)


NO_MASK = Mask()  # forbids nothing
CAUSAL = Mask(is_causal=True)


def _later(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return torch.maximum(a, b)


def _both(name: str, a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    for ours, theirs in zip(a.shape, b.shape, strict=True):
        if ours != theirs and 1 not in (ours, theirs):
            raise ShapeError(f"cannot combine masks whose {name} are {tuple(a.shape)} and {tuple(b.shape)}")
    return a & b


def _kind(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
