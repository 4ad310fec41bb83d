"""Local attention by blocks: query blocks and their memory blocks, so that no (t s) tensor ever exists.

Parmar et al. 2018, section 3.3 (1-D and 2-D), and sliding windows as blocks with a memory of the window's reach. Any
length and size will do: edges are padded, and what is padding is masked.

Windows that overlap, as a view; their gradients are added up piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.masks import Mask
from regard.attention.score import Dot
from regard.core.errors import ShapeError
from regard.core.tracing import gradients, is_tracing

Kernel = Callable[[Dot, Tensor, Mask], Tensor]
MIN_BLOCK_SIZE = 64  # below this a block costs more than it saves


class BlockGrid(NamedTuple):
    """How positions are cut: `size` along each axis, blocks of `block`, memory `before` and `after` each block."""

    size: tuple[int, ...]
    block: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def num_blocks(self) -> tuple[int, ...]:
        """Blocks along each axis."""
        return tuple(-(-size // block) for size, block in zip(self.size, self.block, strict=True))


def use_local_blocks(mask: Mask, t: int, s: int) -> bool:
    """Can the mask be computed block by block, and does that pay?"""
    if t != s or mask.layout is not None or mask.pairs is not None or mask.start is not None or not mask.is_local:
        return False
    grid = _grid(mask, s)
    if grid is None:
        return False
    seen = 1
    for block, before, after in zip(grid.block, grid.before, grid.after, strict=True):
        seen *= block + before + after
    return seen < s


def attend_blocks(dot: Dot, v: Tensor, mask: Mask, kernel: Kernel) -> Tensor:
    """Queries (b h s d), keys (b h s d), values (b h s e) -> (b h s e), by `kernel` on each block."""
    grid = _grid(mask, v.shape[-2])
    if grid is None:
        raise ShapeError("attend_blocks: the mask has no one window or kind of blocks; use Mask.local, block or image")
    if len(grid.size) == 1 and mask.keys is None:
        return _attend_line(dot, v, mask, grid, kernel)
    q, k, scale = dot
    b, h = q.shape[:2]
    blocks = Dot(_queries(q, grid), _memory(k, grid), scale)
    mixed = kernel(blocks, _memory(v, grid), Mask(pairs=_allowed(mask, grid, b, device=q.device)))  # (b·n h l e)
    return _restore(mixed, grid, b, h)


def _attend_line(dot: Dot, v: Tensor, mask: Mask, grid: BlockGrid, kernel: Kernel) -> Tensor:
    """The same along one axis: memory blocks are views that overlap, nothing is copied but the padding.

    Blocks are the batch of the kernel, so that what it writes, block by block, already is in order.
    """
    q, k, scale = dot
    (b, h, s, _), (n,), (block,) = q.shape, grid.num_blocks, grid.block
    edges = (0, 0, grid.before[0], n * block - s + grid.after[0])
    length = block + grid.before[0] + grid.after[0]
    queries = pad(q, (0, 0, 0, n * block - s)) if n * block > s else q
    queries = queries.flatten(0, 1).unflatten(1, (n, block)).transpose(0, 1)  # (n b·h l d)
    keys, values = (sliding_windows(pad(x, edges).flatten(0, 1), length, block).transpose(0, 1) for x in (k, v))
    mixed = kernel(Dot(queries, keys, scale), values, Mask(pairs=_allowed_on_line(mask, grid, device=q.device)))
    in_order = mixed.transpose(1, 2).flatten(0, 1)[:s]  # (s b·h e)
    return in_order.view(s, b, h, v.shape[-1]).permute(1, 2, 0, 3)


def _allowed_on_line(mask: Mask, grid: BlockGrid, *, device: torch.device) -> Tensor:
    """(n 1 l m): every block looks alike but for the edges, so places are compared in one block only."""
    (before,), (after,), (block,) = grid.before, grid.after, grid.block
    first = -(-before // block) * block  # where a block begins whose memory begins at zero or later
    keys = torch.arange(-before, block + after, device=device)
    allowed = mask.allows(torch.arange(first, first + block, device=device)[:, None], first + keys)  # (l m)
    places = torch.arange(grid.num_blocks[0], device=device)[:, None] * block + keys  # (n m)
    return (allowed & ((places >= 0) & (places < grid.size[0]))[:, None])[:, None]


def _grid(mask: Mask, s: int) -> BlockGrid | None:
    """The one kind of locality the mask describes; None where there is none, or two at once."""
    if (mask.window is not None) + (mask.blocks is not None) + (mask.raster is not None) != 1:
        return None
    if mask.blocks is not None:
        return BlockGrid((s,), (mask.blocks.query,), (mask.blocks.memory,), (0,))
    if mask.raster is not None:
        height, width, query, (above, beside) = mask.raster
        return BlockGrid((height, width), query, (above, beside), (0, beside)) if s == height * width else None
    back, ahead = mask.window or (None, None)
    ahead = 0 if mask.is_causal else ahead
    if back is None or ahead is None:
        return None
    return BlockGrid((s,), (max(MIN_BLOCK_SIZE, (back + ahead) // 2),), (back,), (ahead,))


def _queries(x: Tensor, grid: BlockGrid) -> Tensor:
    """(b h s d) -> (b·n h l d): non-overlapping blocks."""
    cut = _cut(x, grid, before=(0,) * len(grid.size), after=(0,) * len(grid.size))
    return _as_rows(cut, len(grid.size))


def _memory(x: Tensor, grid: BlockGrid) -> Tensor:
    """(b h s d) -> (b·n h m d): each block with what it may look at."""
    return _as_rows(_cut(x, grid, before=grid.before, after=grid.after), len(grid.size))


def _cut(x: Tensor, grid: BlockGrid, *, before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
    """(b h s d) -> (b h n… d m…): windows over each axis of the grid, the edges padded with zeros."""
    x = x.reshape(*x.shape[:2], *grid.size, x.shape[-1])
    edges: list[int] = [0, 0]
    for axis in reversed(range(len(grid.size))):
        fill = grid.num_blocks[axis] * grid.block[axis] - grid.size[axis]
        edges += [before[axis], fill + after[axis]]
    x = pad(x, edges)
    for axis, block in enumerate(grid.block):
        x = x.unfold(2 + axis, block + before[axis] + after[axis], block)
    return x


def _as_rows(x: Tensor, axes: int) -> Tensor:
    """(b h n… d m…) -> (b·n h m d)."""
    x = x.flatten(2, 1 + axes).flatten(4)  # (b h n d m)
    return x.permute(0, 2, 1, 4, 3).flatten(0, 1)


def _allowed(mask: Mask, grid: BlockGrid, b: int, *, device: torch.device) -> Tensor:
    """(b·n 1 l m): who may look at whom inside each block."""
    none = (0,) * len(grid.size)
    queries, _ = _places(grid, none, none, device)  # (n l)
    keys, there = _places(grid, grid.before, grid.after, device)  # (n m)
    allowed = mask.allows(queries[:, :, None], keys[:, None, :]) & there[:, None, :]  # (n l m)
    if mask.keys is None:
        return allowed.repeat(b, 1, 1)[:, None]
    present = _memory(mask.keys[:, None, :, None].float(), grid)[:, 0, :, 0] > 0  # (b·n m)
    return allowed.repeat(b, 1, 1)[:, None] & present[:, None, None, :]


def _places(
    grid: BlockGrid, before: tuple[int, ...], after: tuple[int, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """(n m) places in raster order of what each block holds, and whether there is such a place."""
    place = torch.zeros((1,) * (2 * len(grid.size)), dtype=torch.long, device=device)
    there = torch.ones_like(place, dtype=torch.bool)
    axes = len(grid.size)
    for axis, (size, count, block) in enumerate(zip(grid.size, grid.num_blocks, grid.block, strict=True)):
        starts = torch.arange(count, device=device)[:, None] * block
        index = starts + torch.arange(-before[axis], block + after[axis], device=device)  # (n m) of this axis
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = index.shape
        place = place * size + index.view(shape)
        there = there & ((index >= 0) & (index < size)).view(shape)
    return place.flatten(0, axes - 1).flatten(1), there.flatten(0, axes - 1).flatten(1)


def _restore(mixed: Tensor, grid: BlockGrid, b: int, h: int) -> Tensor:
    """(b·n h l e) -> (b h s e): blocks back in their places, padding cut off."""
    axes = len(grid.size)
    mixed = mixed.view(b, *grid.num_blocks, h, *grid.block, mixed.shape[-1])
    order = [0, 1 + axes]
    for axis in range(axes):
        order += [1 + axis, 2 + axes + axis]
    mixed = mixed.permute(*order, 2 + 2 * axes)  # (b h n l n l … e)
    for axis in range(axes):
        mixed = mixed.flatten(2 + axis, 3 + axis).narrow(2 + axis, 0, grid.size[axis])
    return mixed.flatten(2, 1 + axes)


def sliding_windows(x: Tensor, length: int, step: int) -> Tensor:
    """Contiguous (r s d) -> (r n length d): a window at every `step`, as many as are whole; a view."""
    if is_tracing():
        return _plain(x, length, step)
    windows: Tensor = _Overlapping.apply(x, length, step)  # type: ignore[no-untyped-call]  # torch's stub
    return windows


def _plain(x: Tensor, length: int, step: int) -> Tensor:
    return x.unfold(1, length, step).mT


class _Overlapping(torch.autograd.Function):
    """PyTorch's own `unfold` is the same view, but its backward adds up number by number: ten times as slow."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, length: int, step: int) -> Tensor:
        ctx.shape, ctx.length, ctx.step = x.shape, length, step
        return _plain(x, length, step)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        """A window is cut into pieces of `step`; pieces of one number, taken from all windows, do not overlap."""
        if torch.is_grad_enabled():  # a second derivative is wanted; the first is the same everywhere
            anywhere = grad.new_zeros(ctx.shape).requires_grad_()
            return gradients(lambda x: _plain(x, ctx.length, ctx.step), [anywhere], grad)[0], None, None
        r, n, _, d = grad.shape
        step, pieces = ctx.step, -(-ctx.length // ctx.step)
        total = grad.new_zeros(r, max(ctx.shape[1], (n - 1 + pieces) * step), d)
        for number in range(pieces):
            piece = grad[:, :, number * step : (number + 1) * step]
            place = total[:, number * step : (number + n) * step].unflatten(1, (n, step))
            place[:, :, : piece.shape[2]] += piece
        return total[:, : ctx.shape[1]], None, None
