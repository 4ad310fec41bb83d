"""Attention that also says where it looked: the mixture and the weights it was made with, from one call.

A penalty on the weights (Xu et al. 2015, section 4.2.1) needs them with their gradient. Every value carries its own
place along as further features, a one for itself, so the weights come back behind the mixture. The attention is called
like any other: its kernel is the fastest there is, and whoever records it sees it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import Attend
from regard.attention.masks import EVERYTHING, Mask
from regard.attention.score import Projected


class Traced(NamedTuple):
    """What was mixed, and of what."""

    mixed: Tensor  # (b h t e)
    weights: Tensor  # (b h t s), differentiable


def with_places(v: Tensor) -> Tensor:
    """Values (b h s e) -> (b h s e+s): each with a one at its own place behind it. Once for a memory, not a query."""
    s = v.shape[-2]
    return torch.cat([v, torch.eye(s, dtype=v.dtype, device=v.device).expand(*v.shape[:-2], s, s)], dim=-1)


def traced(attend: Attend, q: Tensor, k: Tensor | Projected, v: Tensor, mask: Mask = EVERYTHING) -> Traced:
    """Attend over values that `with_places` made -> the mixture and its weights."""
    s = v.shape[-2]
    both = attend(q, k, v, mask)
    return Traced(both[..., :-s], both[..., -s:])
