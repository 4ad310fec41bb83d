"""Keys that nobody may look at leave no trace: what is hidden may hold anything, NaN and infinity too.

A weight of zero times NaN is NaN, so hidden keys and values are zeroed. That is rarely needed and costs a pass over
both; where an output can be looked at, it says whether it was needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask
from regard.core.tracing import is_tracing


def may_hide_keys(mask: Mask) -> bool:
    """Could there be keys that no query may look at?"""
    return mask.keys is not None or mask.pairs is not None or mask.start is not None


def is_finite(output: Tensor) -> bool:
    """Is it certain that nothing hidden has leaked into the output? Where it cannot be looked at, it is not."""
    if output.device.type != "cpu" or is_tracing():
        return False
    return bool(output.detach().sum().isfinite())


def zero_hidden_keys(k: Tensor, v: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Keys (b h s d) and values (b h s e) with zeros where no query may look."""
    seen = torch.ones((), dtype=torch.bool, device=k.device)
    if mask.keys is not None:
        seen = mask.keys[:, None, :, None]
    if mask.start is not None:
        seen = seen & (torch.arange(k.shape[2], device=k.device) >= mask.start[:, None])[:, None, :, None]
    if mask.pairs is not None:
        seen = seen & mask.pairs.any(dim=-2)[..., None]
    return k.masked_fill(~seen, 0.0), v.masked_fill(~seen, 0.0)
