"""Products with weights on a CPU, by the faster of two libraries: PyTorch's own choice, MKL, or oneDNN.

Where the processor has vectors of 512 bits, oneDNN uses them and MKL on many processors does not: measured, oneDNN is
10 to 20 % faster for large products, and MKL for small ones and for the gradient of the weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LARGE = 2**24  # rows × numbers of the matrix; below, oneDNN's way into a product takes longer than it saves


class Linear(nn.Linear):
    """nn.Linear, its large products on a CPU faster."""

    def forward(self, x: Tensor) -> Tensor:
        if not is_large(x, self.weight):
            return super().forward(x)
        apply: Any = _Linear.apply
        made: Tensor = apply(x.flatten(0, -2), self.weight, self.bias)
        return made.view(*x.shape[:-1], -1)


def is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether x (… d) times the weight (e d) is a product for oneDNN."""
    return (
        x.numel() // max(1, x.shape[-1]) * weight.numel() >= LARGE
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and type(weight) in (Tensor, nn.Parameter)  # not one that is spread over processes
        and has_wide_vectors()
        and not (torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling())
    )


def has_wide_vectors() -> bool:
    """Whether oneDNN has vectors of 512 bits here."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.backends.mkldnn.is_available()


def one_dnn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (n d), weight (e d), plain or packed, bias (e) -> (n e), by oneDNN and without gradients."""
    made: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return made


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return one_dnn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        d_x = one_dnn(grad, weight.mT) if needed[0] else None
        d_weight = grad.mT @ x if needed[1] else None  # MKL is faster here
        return d_x, d_weight, grad.sum(dim=0) if needed[2] else None
