"""Number format of the matrix products of training: float32, or bfloat16 where it is faster and the losses agree.

`auto` follows the model and the device, so that a run and its repetition use the same format.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import nn

from regard.core.errors import ConfigError

# On two Zen 5 cores bfloat16 was 1.2 to 2.7 times as fast above these sizes, and 0.7 to 1.1 times below them.
MIN_WEIGHTS = 200_000  # in matrices that are not embedding tables
MIN_RECURRENT_SIZE = 512  # hidden size of recurrent layers, whose small products gain nothing
TOLERANCE = 0.01  # of the loss, relative where it is above 1; measured: below 0.001
CHECKED_STEPS = (1, 2, 3, 10, 100, 1_000)  # steps of `auto` whose loss is also computed in float32


def resolve_dtype(name: str, device: torch.device, model: nn.Module) -> torch.dtype:
    """Resolve 'auto' to bfloat16 if the device supports it and the model gains from it, else float32.

    Refuse bfloat16 if the device emulates it.
    """
    native = has_bfloat16(device)
    if name == "bfloat16" and not native:
        raise ConfigError(
            f"precision='bfloat16': not supported natively by this {device.type} (measured 8 times slower); use "
            "'float32'"
        )
    is_chosen = name == "auto" and native and (device.type != "cpu" or gains(model))
    return torch.bfloat16 if name == "bfloat16" or is_chosen else torch.float32


def resume_dtype(name: str, device: torch.device, model: nn.Module, *, used: str) -> torch.dtype:
    """Resolve 'auto' to the format that the run has used so far, if the device supports it.

    `used` is empty if the run was started by an earlier version, which used bfloat16 on GPUs only.
    """
    if name != "auto" or (not used and device.type != "cpu"):
        return resolve_dtype(name, device, model)
    return torch.bfloat16 if used == "bfloat16" and has_bfloat16(device) else torch.float32


def gains(model: nn.Module) -> bool:
    """Return True if a training step on a CPU is faster in bfloat16: the matrices are large, recurrent layers wide."""
    sizes = [part.hidden_size for part in model.modules() if isinstance(part, nn.RNNBase)]
    if any(size < MIN_RECURRENT_SIZE for size in sizes):
        return False
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    weights = sum(weight.numel() for weight in model.parameters() if weight.dim() > 1 and id(weight) not in tables)
    return weights >= MIN_WEIGHTS


def agrees(loss: float, reference: float, *, count: int) -> bool:
    """Return True if two sums of losses over `count` items agree within TOLERANCE; a loss that is not finite does not,
    unless the reference is not finite either."""
    if reference - reference != 0:  # infinite or NaN
        return True
    return abs(loss - reference) <= TOLERANCE * max(float(count), abs(reference))


def format_dtype(dtype: torch.dtype) -> str:
    """Return the name of a number format: 'float32', 'bfloat16'."""
    return str(dtype).removeprefix("torch.")


def has_bfloat16(device: torch.device) -> bool:
    """Return True if the device supports bfloat16 matrix products natively."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & _cpu_flags())
    return False


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {word for line in lines if line.startswith(("flags", "Features")) for word in line.split()}


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """Return the autocast context of a forward pass."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype=dtype)
