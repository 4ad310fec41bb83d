"""Local attention in blocks: each block of queries attends to one block of keys, so that no (t s) tensor is created.

Supports the 1-D and 2-D local attention of Parmar et al. 2018, section 3.3, and sliding windows, which are blocks
whose memory has the reach of the window. Any length and size is allowed: edges are padded, and the padding is masked.
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
MIN_BLOCK_SIZE = 64  # smaller blocks cost more than they save


class BlockGrid(NamedTuple):
    """Division of the positions into blocks; each field has one entry per axis (1-D or 2-D)."""

    size: tuple[int, ...]  # positions along the axis
    block: tuple[int, ...]  # positions of a block
    before: tuple[int, ...]  # memory before each block
    after: tuple[int, ...]  # memory after each block

    @property
    def num_blocks(self) -> tuple[int, ...]:
        """Blocks along each axis."""
        return tuple(-(-size // block) for size, block in zip(self.size, self.block, strict=True))


def use_local_blocks(mask: Mask, t: int, s: int) -> bool:
    """Return True if the mask can be computed block by block, with fewer keys per block than in total."""
    if t != s or mask.layout is not None or mask.pairs is not None or mask.start is not None or not mask.is_local:
        return False
    grid = _grid(mask, s)
    if grid is None:
        return False
    keys_per_block = 1
    for block, before, after in zip(grid.block, grid.before, grid.after, strict=True):
        keys_per_block *= block + before + after
    return keys_per_block < s


def attend_blocks(dot: Dot, v: Tensor, mask: Mask, kernel: Kernel) -> Tensor:
    """Queries (b h s d), keys (b h s d), values (b h s e) -> (b h s e), by `kernel` on each block."""
    grid = _grid(mask, v.shape[-2])
    if grid is None:
        raise ShapeError(
            "attend_blocks: the mask is not a single kind of local mask; use one of Mask.local, Mask.block, Mask.image"
        )
    if len(grid.size) == 1 and mask.keys is None:
        return _attend_blocks_1d(dot, v, mask, grid, kernel)
    q, k, scale = dot
    b, h = q.shape[:2]
    blocks = Dot(_query_blocks(q, grid), _memory_blocks(k, grid), scale)
    allowed = _allowed(mask, grid, b, device=q.device)
    output = kernel(blocks, _memory_blocks(v, grid), Mask(pairs=allowed))  # (b·n h l e)
    return _merge_blocks(output, grid, b, h)


def sliding_windows(x: Tensor, length: int, step: int) -> Tensor:
    """Contiguous (r s d) -> (r n length d): a window at every `step` positions, as many as fit; a view."""
    if is_tracing():
        return _unfold(x, length, step)
    windows: Tensor = _SlidingWindows.apply(x, length, step)  # type: ignore[no-untyped-call]  # torch's stub
    return windows


def _grid(mask: Mask, s: int) -> BlockGrid | None:
    """Return the block grid of a mask with exactly one kind of locality, else None."""
    if (mask.window is not None) + (mask.blocks is not None) + (mask.raster is not None) != 1:
        return None
    if mask.blocks is not None:
        return BlockGrid((s,), (mask.blocks.query,), (mask.blocks.memory,), (0,))
    if mask.raster is not None:
        height, width, query, (above, sides) = mask.raster
        return BlockGrid((height, width), query, (above, sides), (0, sides)) if s == height * width else None
    back, ahead = mask.window or (None, None)
    ahead = 0 if mask.is_causal else ahead
    if back is None or ahead is None:
        return None
    return BlockGrid((s,), (max(MIN_BLOCK_SIZE, (back + ahead) // 2),), (back,), (ahead,))


def _attend_blocks_1d(dot: Dot, v: Tensor, mask: Mask, grid: BlockGrid, kernel: Kernel) -> Tensor:
    """Attend along one axis. Memory blocks are overlapping views, so that only the padding is copied.

    The blocks are the batch of the kernel, so that its output is in order without a copy.
    """
    q, k, scale = dot
    (b, h, s, _), (n,), (block,) = q.shape, grid.num_blocks, grid.block
    edges = (0, 0, grid.before[0], n * block - s + grid.after[0])
    length = block + grid.before[0] + grid.after[0]
    queries = pad(q, (0, 0, 0, n * block - s)) if n * block > s else q
    queries = queries.flatten(0, 1).unflatten(1, (n, block)).transpose(0, 1)  # (n b·h l d)
    keys, values = (sliding_windows(pad(x, edges).flatten(0, 1), length, block).transpose(0, 1) for x in (k, v))
    output = kernel(Dot(queries, keys, scale), values, Mask(pairs=_allowed_1d(mask, grid, device=q.device)))
    in_order = output.transpose(1, 2).flatten(0, 1)[:s]  # (s b·h e)
    return in_order.view(s, b, h, v.shape[-1]).permute(1, 2, 0, 3)


def _allowed_1d(mask: Mask, grid: BlockGrid, *, device: torch.device) -> Tensor:
    """(n 1 l m): all blocks are alike except at the edges, so that the mask is evaluated for one block only."""
    (before,), (after,), (block,) = grid.before, grid.after, grid.block
    first = -(-before // block) * block  # start of a block whose memory starts at position 0 or later
    keys = torch.arange(-before, block + after, device=device)
    allowed = mask.allows(torch.arange(first, first + block, device=device)[:, None], first + keys)  # (l m)
    positions = torch.arange(grid.num_blocks[0], device=device)[:, None] * block + keys  # (n m)
    return (allowed & ((positions >= 0) & (positions < grid.size[0]))[:, None])[:, None]


def _query_blocks(x: Tensor, grid: BlockGrid) -> Tensor:
    """(b h s d) -> (b·n h l d): non-overlapping blocks."""
    windows = _windows(x, grid, before=(0,) * len(grid.size), after=(0,) * len(grid.size))
    return _merge_batch(windows, len(grid.size))


def _memory_blocks(x: Tensor, grid: BlockGrid) -> Tensor:
    """(b h s d) -> (b·n h m d): each block with its memory."""
    return _merge_batch(_windows(x, grid, before=grid.before, after=grid.after), len(grid.size))


def _windows(x: Tensor, grid: BlockGrid, *, before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
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


def _merge_batch(x: Tensor, axes: int) -> Tensor:
    """(b h n… d m…) -> (b·n h m d)."""
    x = x.flatten(2, 1 + axes).flatten(4)  # (b h n d m)
    return x.permute(0, 2, 1, 4, 3).flatten(0, 1)


def _allowed(mask: Mask, grid: BlockGrid, b: int, *, device: torch.device) -> Tensor:
    """(b·n 1 l m): the mask of each block."""
    no_memory = (0,) * len(grid.size)
    queries, _ = _block_positions(grid, no_memory, no_memory, device)  # (n l)
    keys, inside = _block_positions(grid, grid.before, grid.after, device)  # (n m)
    allowed = mask.allows(queries[:, :, None], keys[:, None, :]) & inside[:, None, :]  # (n l m)
    if mask.keys is None:
        return allowed.repeat(b, 1, 1)[:, None]
    present = _memory_blocks(mask.keys[:, None, :, None].float(), grid)[:, 0, :, 0] > 0  # (b·n m)
    return allowed.repeat(b, 1, 1)[:, None] & present[:, None, None, :]


def _block_positions(
    grid: BlockGrid, before: tuple[int, ...], after: tuple[int, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the raster positions (n m) that each block covers, and a bool (n m): True inside the grid."""
    position = torch.zeros((1,) * (2 * len(grid.size)), dtype=torch.long, device=device)
    inside = torch.ones_like(position, dtype=torch.bool)
    axes = len(grid.size)
    for axis, (size, count, block) in enumerate(zip(grid.size, grid.num_blocks, grid.block, strict=True)):
        starts = torch.arange(count, device=device)[:, None] * block
        index = starts + torch.arange(-before[axis], block + after[axis], device=device)  # (n m) of this axis
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = index.shape
        position = position * size + index.view(shape)
        inside = inside & ((index >= 0) & (index < size)).view(shape)
    return position.flatten(0, axes - 1).flatten(1), inside.flatten(0, axes - 1).flatten(1)


def _merge_blocks(output: Tensor, grid: BlockGrid, b: int, h: int) -> Tensor:
    """(b·n h l e) -> (b h s e): blocks put back in order, padding removed."""
    axes = len(grid.size)
    output = output.view(b, *grid.num_blocks, h, *grid.block, output.shape[-1])
    order = [0, 1 + axes]
    for axis in range(axes):
        order += [1 + axis, 2 + axes + axis]
    output = output.permute(*order, 2 + 2 * axes)  # (b h n l n l … e)
    for axis in range(axes):
        output = output.flatten(2 + axis, 3 + axis).narrow(2 + axis, 0, grid.size[axis])
    return output.flatten(2, 1 + axes)


class _SlidingWindows(torch.autograd.Function):
    """Overlapping windows as a view. The backward pass of `unfold` adds one number at a time: ten times as slow."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, length: int, step: int) -> Tensor:
        ctx.shape, ctx.length, ctx.step = x.shape, length, step
        return _unfold(x, length, step)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        """Split every window into pieces of `step` positions; the i-th pieces of all windows do not overlap."""
        if torch.is_grad_enabled():  # a second derivative is needed; the first does not depend on the input
            anywhere = grad.new_zeros(ctx.shape).requires_grad_()
            return gradients(lambda x: _unfold(x, ctx.length, ctx.step), [anywhere], grad)[0], None, None
        r, n, _, d = grad.shape
        step, num_pieces = ctx.step, -(-ctx.length // ctx.step)
        total = grad.new_zeros(r, max(ctx.shape[1], (n - 1 + num_pieces) * step), d)
        for i in range(num_pieces):
            piece = grad[:, :, i * step : (i + 1) * step]
            target = total[:, i * step : (i + n) * step].unflatten(1, (n, step))
            target[:, :, : piece.shape[2]] += piece
        return total[:, : ctx.shape[1]], None, None


def _unfold(x: Tensor, length: int, step: int) -> Tensor:
    return x.unfold(1, length, step).mT
