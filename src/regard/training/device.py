"""What a run computes on: the device, the number format, compiled or recomputed blocks, the memory of the process.

None of these changes the mathematics of a step.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.core.errors import ConfigError
from regard.core.protocols import Loss

LossFunction = Callable[[nn.Module, Any], Loss]  # loss(model, batch)
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # from glibc's malloc.h


def select_device(name: str, *, local_rank: int = 0) -> torch.device:
    """'auto', 'cpu', 'cuda' or 'mps' -> the device; one GPU per process."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device='cuda': PyTorch finds no CUDA GPU here; use device='auto' or 'cpu'")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device='mps': PyTorch finds no Apple GPU here; use device='auto' or 'cpu'")
    return torch.device("cuda", local_rank % torch.cuda.device_count()) if name == "cuda" else torch.device(name)


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """'auto' is bfloat16 on GPUs that have it and float32 elsewhere; bfloat16 is refused where it only costs time."""
    native = has_bfloat16(device)
    if name == "bfloat16" and not native:
        raise ConfigError(
            f"precision='bfloat16': this {device.type} has no native bfloat16 (measured 8 times slower); use 'float32'"
        )
    gpu = device.type == "cuda"
    return torch.bfloat16 if name == "bfloat16" or (name == "auto" and gpu and native) else torch.float32


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices itself."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & _processor_flags())
    return False


def _processor_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {word for line in lines if line.startswith(("flags", "Features")) for word in line.split()}


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """The context a forward pass runs in."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype=dtype)


def keep_freed_memory() -> bool:
    """Let the process keep the memory it frees; says whether it could (without glibc nothing happens).

    glibc otherwise returns every large tensor to the system and faults it in again: on two EPYC cores a small
    Transformer trains 1.31 times as fast without that. Called when a job starts in a process of our own, never on
    import.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 * 2**20))
    accepted = [libc.mallopt(name, value) == 1 for name, value in settings]
    return all(accepted)


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks of a model: the members of its module lists, without those inside another one."""
    members = [block for part in model.modules() if isinstance(part, nn.ModuleList) for block in part]
    inner = {id(part) for block in members for part in block.modules() if part is not block}
    return [block for block in members if id(block) not in inner and not _counts(block)]


def _counts(block: nn.Module) -> bool:
    """Does it count while it computes, as batch normalisation does? Computed twice, it would count twice."""
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in block.modules())


def enable_activation_checkpointing(model: nn.Module) -> None:
    """Activation checkpointing: every block keeps only its inputs and computes the rest again in the backward pass."""
    for block in repeated_blocks(model):
        _recompute(block)


def _recompute(block: nn.Module) -> None:
    plain = block.forward

    def forward(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return plain(*inputs, **named)
        return checkpoint(plain, *inputs, use_reentrant=False, **named)

    block.forward = forward  # hooks still fire: they are called around forward


class CompiledLoss:
    """A loss function, compiled by torch.compile; if compiling fails, the plain one goes on and one line says why."""

    def __init__(self, loss: LossFunction, print_line: Callable[[str], None]) -> None:
        self._plain, self._say = loss, print_line
        self._fast: LossFunction | None = torch.compile(loss, dynamic=True)

    def __call__(self, model: nn.Module, batch: Any) -> Loss:
        """The loss. The plain function also runs after an error of the task's own, which it then raises itself."""
        if self._fast is not None:
            try:
                return self._fast(model, batch)
            except Exception as reason:  # whatever a compiler can raise
                self._fast = None
                self._say(f"compile: not used, the plain path goes on: {_first_line(reason)}")
        return self._plain(model, batch)


def _first_line(reason: Exception) -> str:
    lines = str(reason).strip().splitlines() or [""]
    return f"{type(reason).__name__}: {lines[0][:200]}"
