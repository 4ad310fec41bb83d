"""Device selection, compilation, activation checkpointing and memory settings of the process.

None of these changes the mathematics of a step.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.core.errors import ConfigError
from regard.core.protocols import Loss

LossFunction = Callable[[nn.Module, Any], Loss]  # loss(model, batch)
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # from glibc's malloc.h


def select_device(name: str, *, local_rank: int = 0) -> torch.device:
    """'auto', 'cpu', 'cuda' or 'mps' -> device; one GPU per process."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device='cuda': PyTorch does not find a CUDA GPU; use device='auto' or 'cpu'")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device='mps': PyTorch does not find an Apple GPU; use device='auto' or 'cpu'")
    if name == "cuda":
        return torch.device("cuda", local_rank % torch.cuda.device_count())
    try:
        return torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device={name!r} is not a device; choose auto, cpu, cuda or mps") from None


def keep_freed_memory() -> bool:
    """Make malloc retain freed memory; return True on success (always False without glibc).

    By default glibc returns every large tensor to the system and faults the pages in again. On two EPYC cores a small
    Transformer trains 1.31 times as fast without that. Called when a training job starts, never on import.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 * 2**20))
    accepted = [libc.mallopt(name, value) == 1 for name, value in settings]
    return all(accepted)


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the repeated blocks of a model: the members of its outermost module lists."""
    members = [block for part in model.modules() if isinstance(part, nn.ModuleList) for block in part]
    inner = {id(part) for block in members for part in block.modules() if part is not block}
    return [block for block in members if id(block) not in inner and not _has_batch_norm(block)]


def _has_batch_norm(block: nn.Module) -> bool:
    """Batch normalization updates running statistics in its forward pass; recomputation would update them twice."""
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in block.modules())


def enable_activation_checkpointing(model: nn.Module) -> None:
    """Let every block store only its inputs and recompute its activations in the backward pass."""
    for block in repeated_blocks(model):
        _recompute(block)


def _recompute(block: nn.Module) -> None:
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return original(*args, **kwargs)
        return checkpoint(original, *args, use_reentrant=False, **kwargs)

    block.forward = forward  # hooks are still called: they wrap forward


class CompiledLoss:
    """Loss function compiled by torch.compile. If that fails, the reason is printed and the eager function used."""

    def __init__(self, loss: LossFunction, print_line: Callable[[str], None]) -> None:
        self._eager, self._print_line = loss, print_line
        self._compiled: LossFunction | None = torch.compile(loss, dynamic=True)

    def __call__(self, model: nn.Module, batch: Any) -> Loss:
        """Return the loss. After an error in the task itself the eager function is called and raises it again."""
        if self._compiled is not None:
            try:
                return self._compiled(model, batch)
            except Exception as error:  # a compiler may raise anything
                self._compiled = None
                self._print_line(f"compile: failed, using the eager model: {_first_line(error)}")
        return self._eager(model, batch)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
