"""Protect attention outputs from NaN and infinity in masked keys and values.

A weight of zero times NaN is NaN, so hidden keys and values are set to zero. This is rarely needed and costs a pass
over both. If the values of the output may be inspected, they show whether it was needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask
from regard.core.tracing import can_inspect, is_exporting

CHUNK_QUERIES = 256  # queries whose mask is in memory at a time


def may_hide_keys(mask: Mask, t: int, s: int) -> bool:
    """Return True if there may be keys that none of the `t` queries attends to.

    A query attends to its own position, so a local mask hides keys only if there are more keys than queries.
    """
    if mask.keys is not None or mask.pairs is not None or mask.start is not None:
        return True
    return mask.is_local and (is_exporting() or t < s)


def is_finite(output: Tensor) -> bool:
    """Return True if the output is certainly finite; False if its values cannot be inspected (GPU, tracing)."""
    if output.device.type != "cpu" or not can_inspect(output):
        return False
    return bool(output.detach().sum().isfinite())


def zero_hidden_keys(k: Tensor, v: Tensor, mask: Mask, t: int) -> tuple[Tensor, Tensor]:
    """Keys (b h s d) and values (b h s e) -> the same with zeros where none of the `t` queries may attend."""
    if k.device.type == "cpu" and can_inspect(k):
        visible = _visible_keys(mask, t, k.shape[2])
    else:
        visible = _possibly_visible_keys(mask, t, k.shape[2], k.device)
    return k.masked_fill(~visible, 0.0), v.masked_fill(~visible, 0.0)


def _visible_keys(mask: Mask, t: int, s: int) -> Tensor:
    """(b h s 1) bool, or broadcastable to it: the keys that some query may attend to."""
    visible = torch.zeros(1, 1, s, 1, dtype=torch.bool)
    for low in range(0, t, CHUNK_QUERIES):
        high = min(low + CHUNK_QUERIES, t)
        allowed = mask.submask(low, high, keys=s).dense(high - low, s, query_offset=s - t + low)
        if allowed is None:
            return torch.ones_like(visible)
        visible = visible | allowed.any(dim=-2)[..., None]
    return visible


def _possibly_visible_keys(mask: Mask, t: int, s: int, device: torch.device) -> Tensor:
    """Return the same without a branch on values and without a (t s) tensor: each part of the mask by itself."""
    positions = torch.arange(s, device=device)
    visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    if mask.window is not None or mask.blocks is not None:  # the first query reaches furthest back
        sequence = Mask(window=mask.window, blocks=mask.blocks)
        first_query = torch.full((1, 1), s - t, device=device)
        visible = (sequence.allows(first_query, positions) | (positions >= s - t))[None, ..., None]
    if mask.keys is not None:
        visible = visible & mask.keys[:, None, :, None]
    if mask.start is not None:
        visible = visible & (positions >= mask.start[:, None])[:, None, :, None]
    if mask.pairs is not None:
        visible = visible & mask.pairs.any(dim=-2)[..., None]
    return visible
