"""Skewing: scores by distance become scores by place without a (t s d) tensor. Huang et al. 2019, section 3.4.1."""

from __future__ import annotations

import torch
from torch import Tensor


def distances(t: int, s: int, *, first: int, device: torch.device | None = None) -> Tensor:
    """(t + s - 1): every query-to-key distance that occurs, from the farthest back to the farthest ahead."""
    return torch.arange(first + t - 1, first - s, -1, device=device)


def skew(by_distance: Tensor, s: int) -> Tensor:
    """(… t t+s-1) scores of queries by distance -> (… t s) scores by key.

    Query i meets key j at column t-1-i+j. Read in rows shorter by one, each row starts one column earlier than the last, which is
    just that shift: a view, no copy.
    """
    t, n = by_distance.shape[-2:]
    if t == 1:
        return by_distance
    flat = by_distance.flatten(-2)[..., t - 1 : t - 1 + t * (n - 1)]
    return flat.unflatten(-1, (t, n - 1))[..., :s]
