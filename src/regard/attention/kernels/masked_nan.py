"""Protect attention outputs from NaN and infinity in masked keys and values.

A weight of zero times NaN is NaN, so hidden keys and values are set to zero. This is rarely needed and costs a pass
over both. If the values of the output may be inspected, they show whether it was needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask
from regard.core.tracing import is_tracing


def may_hide_keys(mask: Mask) -> bool:
    """Return True if there may be keys that no query attends to."""
    return mask.keys is not None or mask.pairs is not None or mask.start is not None


def is_finite(output: Tensor) -> bool:
    """Return True if the output is certainly finite; False if its values cannot be inspected (GPU, tracing)."""
    if output.device.type != "cpu" or is_tracing():
        return False
    return bool(output.detach().sum().isfinite())


def zero_hidden_keys(k: Tensor, v: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Keys (b h s d) and values (b h s e) -> the same with zeros where no query may attend."""
    visible = torch.ones((), dtype=torch.bool, device=k.device)
    if mask.keys is not None:
        visible = mask.keys[:, None, :, None]
    if mask.start is not None:
        visible = visible & (torch.arange(k.shape[2], device=k.device) >= mask.start[:, None])[:, None, :, None]
    if mask.pairs is not None:
        visible = visible & mask.pairs.any(dim=-2)[..., None]
    return k.masked_fill(~visible, 0.0), v.masked_fill(~visible, 0.0)
