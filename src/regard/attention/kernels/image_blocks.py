"""Attention over an image in generation order, block by block, so that no (t s) tensor is ever created.

The keys that a block's queries may attend to are gathered once for the block. Queries and keys are gathered as rows
that hold the features of the entire batch and of all heads, so that each row is one copy, forward and backward.
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
VECTOR_WIDTH = 8  # the keys of a block are padded to full vectors


class BlockPlan(NamedTuple):
    """The positions that each of the n blocks gathers. Padding is position 0, and masked."""

    queries: Tensor  # (n l)
    keys: Tensor  # (n m)
    allowed: Tensor  # (n 1 l m)
    inverse: Tensor  # (t) the index of each query among the n·l gathered ones


def use_image_blocks(mask: Mask, t: int, s: int) -> bool:
    """Return True if the mask is just an image layout with causal order, and blocks have fewer keys than the image."""
    causal = mask._replace(layout=None).only_causal
    return causal and t == s and mask.layout is not None and _max_block_keys(mask.layout) < t


def attend_image_blocks(dot: Dot, v: Tensor, layout: ImageBlocks2D, kernel: Kernel) -> Tensor:
    """Queries (b h t d), keys (b h t d), values (b h t e) -> (b h t e), causal, by `kernel` on each block."""
    q, k, scale = dot
    b, h, t, _ = q.shape
    queries, keys, allowed, inverse = (x.to(q.device) for x in block_plan(layout, t))
    blocks = Dot(_gather(q, queries), _gather(k, keys), scale)
    output = kernel(blocks, _gather(v, keys), Mask(pairs=allowed))  # (n b·h l e)
    rows = output.transpose(1, 2).flatten(0, 1).flatten(1)  # (n·l b·h·e)
    if len(rows) != t:  # borders, or an incomplete image; otherwise the blocks are in generation order already
        rows = rows.index_select(0, inverse)
    return rows.view(t, b, h, -1).permute(1, 2, 0, 3)


@lru_cache(maxsize=64)  # the same for every layer and every step
def block_plan(layout: ImageBlocks2D, t: int) -> BlockPlan:
    """Return the plan for causal attention over the first `t` positions, block by block."""
    num_blocks = layout.block_of(t - 1) + 1
    bounds = [layout.bounds(block) for block in range(num_blocks)]
    max_queries = max(end - first for first, end in bounds)
    memories = [
        torch.cat([visible_positions(layout, block), torch.arange(*bounds[block])]) for block in range(num_blocks)
    ]
    max_keys = -(-max(map(len, memories)) // VECTOR_WIDTH) * VECTOR_WIDTH
    queries, keys = torch.full((num_blocks, max_queries), -1), torch.full((num_blocks, max_keys), t)
    for block, ((first, end), memory) in enumerate(zip(bounds, memories, strict=True)):
        queries[block, : end - first] = torch.arange(first, end)
        keys[block, : len(memory)] = memory
    inverse = torch.empty(layout.length, dtype=torch.long)
    inverse[queries[queries >= 0]] = (queries >= 0).flatten().nonzero().flatten()
    allowed = (keys[:, None] <= queries[:, :, None]) & (keys[:, None] < t)  # (n l m)
    queries, keys = queries.where((queries >= 0) & (queries < t), 0), keys.where(keys < t, 0)
    return BlockPlan(queries, keys, allowed[:, None], inverse[:t])


@lru_cache(maxsize=64)
def _max_block_keys(layout: ImageBlocks2D) -> int:
    """Return the largest number of keys that a block attends to."""
    bounds = (layout.bounds(block) for block in range(layout.num_blocks))
    return max(len(visible_positions(layout, block)) + end - first for block, (first, end) in enumerate(bounds))


def _gather(x: Tensor, positions: Tensor) -> Tensor:
    """(b h t d) and positions (n m) -> (n b·h m d)."""
    b, h, t, d = x.shape
    rows = x.permute(2, 0, 1, 3).reshape(t, b * h * d)
    if positions.numel() != t:
        rows = rows.index_select(0, positions.flatten())
    return rows.view(*positions.shape, b * h, d).transpose(1, 2)
