"""Attention over few keys on a CPU: two batched products and a softmax, with the keys padded to whole vectors.

A softmax over 15 numbers is computed one by one, over 16 in two vector instructions: ten times as fast. And where a
query is one token, the fused kernel's blocks are mostly air.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.score import Dot

LANES = 8  # numbers in a vector
LEAST = 16  # below, the softmax of PyTorch is not vectorised
SHORT = 64  # queries and keys up to which this was measured to be faster than the fused kernel, forward and backward


def whole(length: int) -> int:
    """The next length made of whole vectors."""
    return max(LEAST, -(-length // LANES) * LANES)


def split(x: Tensor, heads: int, room: int) -> Tensor:
    """(b s h·d) -> (b·h room d), zeros behind the last key."""
    b, s, width = x.shape
    made = x.new_zeros(b, heads, room, width // heads)
    made[:, :, :s] = x.view(b, s, heads, -1).transpose(1, 2)
    return made.flatten(0, 1)


class Fold(NamedTuple):
    """How many heads of what width. Numbers, not sizes of tensors, so that a trace has them as constants."""

    heads: int
    width: int

    def apart(self, x: Tensor) -> Tensor:
        """(r h·d) -> (r h 1 d)."""
        return x.reshape(-1, self.heads, 1, self.width)

    def into(self, x: Tensor, sources: int) -> Tensor:
        """(r h·d) -> (b·h w d): the w rows of a source are queries of it side by side."""
        if x.shape[0] == sources:
            return x.reshape(-1, 1, self.width)
        return x.reshape(sources, -1, self.heads, self.width).transpose(1, 2).flatten(0, 1)

    def out_of(self, mixed: Tensor) -> Tensor:
        """(b·h w d) -> (r h·d)."""
        if mixed.shape[1] == 1:
            return mixed.view(-1, self.heads * self.width)
        rows = mixed.reshape(-1, self.heads, mixed.shape[1], self.width).transpose(1, 2)
        return rows.reshape(-1, self.heads * self.width)


def absent(lengths: Tensor, room: int) -> Tensor:
    """Lengths (b) -> (b 1 room): 0 where there is a key, -inf behind."""
    there = torch.arange(room, device=lengths.device) < lengths[:, None]
    return torch.zeros(1).where(there, -torch.inf)[:, None]


def mix(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Queries (n t d), keys and values (n s d), a mask to add (n 1 s) or (1 1 s) -> (n t d)."""
    return torch.bmm(torch.baddbmm(mask, q, k.mT, alpha=scale).softmax(-1), v)


def is_short(q: Tensor, k: Tensor) -> bool:
    """Are queries (b h t d) and keys (b h s d) few, on a CPU, and not of half precision, which is slow there?"""
    plain = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    return plain and 0 < q.shape[2] <= SHORT and 0 < k.shape[2] <= SHORT


def mix_heads(dot: Dot, v: Tensor, allowed: Tensor | None) -> Tensor:
    """Queries (b h t d), keys (b h s d), values (b h s e), what may be looked at -> (b h t e), as the fused kernel."""
    q, k, scale = dot
    (b, h, t, _), s = q.shape, k.shape[2]
    behind = (0, 0, 0, whole(s) - s)
    if allowed is None:
        allowed = torch.ones(1, dtype=torch.bool, device=q.device)
    bias = q.new_full((*allowed.shape[:-1], whole(s)), -torch.inf)
    bias[..., :s].masked_fill_(allowed, 0.0)
    scores = torch.bmm(q.flatten(0, 1), pad(k, behind).flatten(0, 1).mT).view(b, h, t, -1)
    weights = torch.add(bias, scores, alpha=scale).softmax(-1)
    return torch.bmm(weights.flatten(0, 1), pad(v, behind).flatten(0, 1)).view(b, h, t, -1)
