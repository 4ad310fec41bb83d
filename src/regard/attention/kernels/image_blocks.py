"""Attention over an image in the order of making, block by block: no (t s) tensor ever exists.

What a block's queries may look at is gathered once for the whole block. Queries and keys are taken as rows that hold
the features of the whole batch and of all heads, so a row is copied in one go, forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.image_layout import ImageBlocks2D, visible_positions
from regard.attention.masks import Mask
from regard.attention.score import Dot

Kernel = Callable[[Dot, Tensor, Mask], Tensor]
VECTOR_WIDTH = 8  # keys of a block are filled up to whole vectors


class BlockPlan(NamedTuple):
    """Which rows each block takes. Rows that are not there are row 0, and forbidden."""

    queries: Tensor  # (n l)
    keys: Tensor  # (n m)
    allowed: Tensor  # (n 1 l m)
    inverse: Tensor  # (t) the place of each query among the blocks' n·l


def use_image_blocks(mask: Mask, t: int, s: int) -> bool:
    """Is the mask causal along the order of making and nothing else, and do blocks see fewer keys than there are?"""
    causal = mask._replace(layout=None).only_causal
    return causal and t == s and mask.layout is not None and _most(mask.layout) < t


@lru_cache(maxsize=64)
def _most(canvas: ImageBlocks2D) -> int:
    """The most keys that a block looks at."""
    bounds = (canvas.bounds(block) for block in range(canvas.num_blocks))
    return max(len(visible_positions(canvas, block)) + end - first for block, (first, end) in enumerate(bounds))


@lru_cache(maxsize=64)  # the same for every layer and every step
def block_plan(layout: ImageBlocks2D, t: int) -> BlockPlan:
    """How the first `t` places are attended block by block, none looking ahead."""
    count = layout.block_of(t - 1) + 1
    bounds = [layout.bounds(block) for block in range(count)]
    longest = max(end - first for first, end in bounds)
    memories = [torch.cat([visible_positions(layout, block), torch.arange(*bounds[block])]) for block in range(count)]
    most = -(-max(map(len, memories)) // VECTOR_WIDTH) * VECTOR_WIDTH
    queries, keys = torch.full((count, longest), -1), torch.full((count, most), t)
    for block, ((first, end), memory) in enumerate(zip(bounds, memories, strict=True)):
        queries[block, : end - first] = torch.arange(first, end)
        keys[block, : len(memory)] = memory
    back = torch.empty(layout.length, dtype=torch.long)
    back[queries[queries >= 0]] = (queries >= 0).flatten().nonzero().flatten()
    allowed = (keys[:, None] <= queries[:, :, None]) & (keys[:, None] < t)  # (n l m)
    queries, keys = queries.where((queries >= 0) & (queries < t), 0), keys.where(keys < t, 0)
    return BlockPlan(queries, keys, allowed[:, None], back[:t])


def attend_image_blocks(dot: Dot, v: Tensor, layout: ImageBlocks2D, kernel: Kernel) -> Tensor:
    """Queries (b h t d), keys (b h t d), values (b h t e) -> (b h t e), causal, by `kernel` on each block."""
    q, k, scale = dot
    b, h, t, _ = q.shape
    queries, keys, allowed, back = (x.to(q.device) for x in block_plan(layout, t))
    blocks = Dot(_take(q, queries), _take(k, keys), scale)
    mixed = kernel(blocks, _take(v, keys), Mask(pairs=allowed))  # (n b·h l e)
    rows = mixed.transpose(1, 2).flatten(0, 1).flatten(1)  # (n·l b·h·e)
    if len(rows) != t:  # borders, or an image that is not whole; else blocks follow each other as the places do
        rows = rows.index_select(0, back)
    return rows.view(t, b, h, -1).permute(1, 2, 0, 3)


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """(b h t d) and rows (n m) -> (n b·h m d)."""
    b, h, t, d = x.shape
    flat = x.permute(2, 0, 1, 3).reshape(t, b * h * d)
    if rows.numel() != t:
        flat = flat.index_select(0, rows.flatten())
    return flat.view(*rows.shape, b * h, d).transpose(1, 2)
