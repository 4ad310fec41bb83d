"""Helpers for code that runs under torch.compile, tracing, export or functorch transforms.

There a branch on tensor values fails or is frozen, and a custom autograd Function has no second derivative of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad


def is_tracing() -> bool:
    """Return True under a compiler, a tracer or a transform: code must not branch on values, nor use custom kernels."""
    return (
        torch.compiler.is_compiling()
        or bool(torch._C._is_tracing())
        or (bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0)
    )


def can_inspect(x: Tensor) -> bool:
    """Return True if code may branch on the values of `x`: it is no meta or fake tensor, and nothing is traced."""
    return not is_tracing() and x.device.type != "meta" and not isinstance(x, FakeTensor)


def is_exporting() -> bool:
    """Return True while a program for any size is built (torch.export, ONNX, a trace): no branch on a length."""
    return torch.compiler.is_exporting() if torch.compiler.is_compiling() else bool(torch._C._is_tracing())


def is_transforming() -> bool:
    """Return True under a functorch transform (vmap, grad, jvp) or forward-mode differentiation."""
    if torch.compiler.is_compiling():  # the compiler has already resolved the transforms
        return False
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def gradients(fn: Callable[..., Tensor], inputs: Sequence[Tensor | None], grad: Tensor) -> list[Tensor | None]:
    """Return the differentiable gradients of `fn(*inputs)`, None for inputs that need none.

    For the backward pass of a custom autograd Function, where gradients are only enabled for a second derivative.
    """
    with torch.enable_grad():
        leaves = [x for x in inputs if x is not None and x.requires_grad]
        leaf_grads = iter(torch.autograd.grad(fn(*inputs), leaves, grad, create_graph=True, allow_unused=True))
    return [next(leaf_grads) if x is not None and x.requires_grad else None for x in inputs]
