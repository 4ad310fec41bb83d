"""Code that something else follows: a compiler, a tracer, a transform of functions (vmap, grad, jvp), a second
derivative. There a branch on values breaks or is frozen, and a gradient written by hand has no gradient of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_tracing() -> bool:
    """Is a compiler, a tracer or a transform following? Then no value may be looked at, and operations are plain."""
    return (
        torch.compiler.is_compiling()
        or bool(torch._C._is_tracing())
        or (bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0)
    )


def is_exporting() -> bool:
    """Is a program being made for any size (torch.export, ONNX, a trace)? Then no branch may depend on a length."""
    return torch.compiler.is_exporting() if torch.compiler.is_compiling() else bool(torch._C._is_tracing())


def is_transforming() -> bool:
    """Is a transform of functions active (torch.func, forward-mode gradients)?"""
    if torch.compiler.is_compiling():  # it has taken them apart already
        return False
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def gradients(fn: Callable[..., Tensor], inputs: Sequence[Tensor | None], grad: Tensor) -> list[Tensor | None]:
    """Gradients of `plain(*inputs)`, made of operations that can be differentiated again; None where none is wanted.

    For the backward pass of an own Function: there gradients are enabled only if a second derivative is wanted.
    """
    with torch.enable_grad():
        wanted = [x for x in inputs if x is not None and x.requires_grad]
        found = iter(torch.autograd.grad(fn(*inputs), wanted, grad, create_graph=True, allow_unused=True))
    return [next(found) if x is not None and x.requires_grad else None for x in inputs]
