"""Activation checkpointing: the blocks of a model keep only their inputs and compute the rest again going backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.training.units import blocks


def recompute_blocks(model: nn.Module) -> None:
    """Let every repeated block trade time for memory. Names and weights stay as they are."""
    for block in blocks(model):
        _recompute(block)


def _recompute(block: nn.Module) -> None:
    plain = block.forward

    def forward(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return plain(*inputs, **named)
        return checkpoint(plain, *inputs, use_reentrant=False, **named)

    block.forward = forward  # hooks still fire: they are called around forward
