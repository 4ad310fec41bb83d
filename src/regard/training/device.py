"""Which device and which number format: chosen where `auto`, checked where named."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from regard.core.errors import ConfigError


def pick(name: str, *, local_rank: int = 0) -> torch.device:
    """'auto', 'cpu', 'cuda' or 'mps' -> the device; one GPU per process."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device='cuda': PyTorch finds no CUDA GPU here; use device='auto' or 'cpu'")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device='mps': PyTorch finds no Apple GPU here; use device='auto' or 'cpu'")
    return torch.device("cuda", local_rank % torch.cuda.device_count()) if name == "cuda" else torch.device(name)


def number_format(name: str, device: torch.device) -> torch.dtype:
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
