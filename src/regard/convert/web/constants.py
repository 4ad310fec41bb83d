"""Constant tensors of programs as bytes: float16 where it is exact, else float32; integers as int32."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import ConfigError

ALIGNMENT = 8  # bytes


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Tensors by name -> their shapes, types and offsets, and all bytes in base64."""
    entries, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        dtype, stored = _stored(tensor.detach().cpu().contiguous())
        data = stored.numpy().tobytes()
        data += b"\0" * (-len(data) % ALIGNMENT)
        entries[name] = {"shape": list(tensor.shape), "dtype": dtype, "offset": offset}
        parts.append(data)
        offset += len(data)
    return {"entries": entries, "bytes": base64.b64encode(b"".join(parts)).decode("ascii")}


def _stored(tensor: Tensor) -> tuple[str, Tensor]:
    """Return the type's name and the tensor in the smallest type that represents it exactly."""
    if tensor.dtype == torch.bool:
        return "u1", tensor
    if tensor.dtype == torch.float64:
        return "f8", tensor
    if tensor.is_floating_point():
        full = tensor.float()
        half = full.half()
        return ("f2", half) if torch.equal(half.float(), full) else ("f4", full)
    if tensor.numel() and int(tensor.abs().max()) >= 2**31:
        raise ConfigError(f"web: a constant holds {int(tensor.abs().max())}, which is over 31 bits; not supported")
    return "i4", tensor.int()
