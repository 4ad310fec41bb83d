"""Windows that overlap, as a view; their gradients are added up piece by piece."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.transforms import followed, gradients


def overlapping(x: Tensor, length: int, step: int) -> Tensor:
    """Contiguous (r s d) -> (r n length d): a window at every `step`, as many as are whole; a view."""
    if followed():
        return _plain(x, length, step)
    windows: Tensor = _Overlapping.apply(x, length, step)  # type: ignore[no-untyped-call]  # torch's stub
    return windows


def _plain(x: Tensor, length: int, step: int) -> Tensor:
    return x.unfold(1, length, step).mT


class _Overlapping(torch.autograd.Function):
    """PyTorch's own `unfold` is the same view, but its backward adds up number by number: ten times as slow."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, length: int, step: int) -> Tensor:
        ctx.shape, ctx.length, ctx.step = x.shape, length, step
        return _plain(x, length, step)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        """A window is cut into pieces of `step`; pieces of one number, taken from all windows, do not overlap."""
        if torch.is_grad_enabled():  # a second derivative is wanted; the first is the same everywhere
            anywhere = grad.new_zeros(ctx.shape).requires_grad_()
            return gradients(lambda x: _plain(x, ctx.length, ctx.step), [anywhere], grad)[0], None, None
        r, n, _, d = grad.shape
        step, pieces = ctx.step, -(-ctx.length // ctx.step)
        total = grad.new_zeros(r, max(ctx.shape[1], (n - 1 + pieces) * step), d)
        for number in range(pieces):
            piece = grad[:, :, number * step : (number + 1) * step]
            place = total[:, number * step : (number + n) * step].unflatten(1, (n, step))
            place[:, :, : piece.shape[2]] += piece
        return total[:, : ctx.shape[1]], None, None
