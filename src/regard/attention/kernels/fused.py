"""The fused kernel of PyTorch, differentiable twice on a CPU.

The backward pass of the flash kernel has no derivative. Here second derivatives are computed by two plain products,
and only on request: the first derivative uses the kernels of PyTorch. On other devices the kernel of
PyTorch is used as it is; there `torch.nn.attention.sdpa_kernel(SDPBackend.MATH)` has second derivatives.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from regard.attention.score import Dot
from regard.core.tracing import gradients, is_tracing

FLASH = int(SDPBackend.FLASH_ATTENTION.value)


def attend_scaled_dot(
    dot: Dot, v: Tensor, *, allowed: Tensor | None = None, is_causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """Queries (b h t d), keys (b h s d), values (b h s e) -> (b h t e); `allowed` is bool, True = may attend."""
    q, k, scale = dot
    options: dict[str, Any] = {"attn_mask": allowed, "dropout_p": dropout, "is_causal": is_causal, "scale": scale}
    if not _needs_second_derivative(dot, v) or torch._fused_sdp_choice(q, k, v, **options) != FLASH:
        return scaled_dot_product_attention(q, k, v, **options)
    bias = None if allowed is None else torch.zeros((), dtype=q.dtype).where(allowed, -torch.inf)
    apply: Any = _Flash.apply
    output: Tensor = apply(q, k, v, bias, is_causal, scale)
    return output


def _needs_second_derivative(dot: Dot, v: Tensor) -> bool:
    """Return True if a second derivative may be requested, and the kernel of PyTorch may have none."""
    if not torch.is_grad_enabled() or not (dot.q.requires_grad or dot.k.requires_grad or v.requires_grad):
        return False
    return v.device.type == "cpu" and not is_tracing() and not torch.is_autocast_enabled("cpu")


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917  # an autograd Function takes positional arguments
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, is_causal: bool, scale: float
    ) -> Tensor:
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        output, log_sums = kernel(q, k, v, 0.0, is_causal, attn_mask=bias, scale=scale)
        ctx.save_for_backward(q, k, v, output, log_sums, *([] if bias is None else [bias]))
        ctx.is_causal, ctx.scale = is_causal, scale
        result: Tensor = output
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, output, log_sums, *rest = ctx.saved_tensors
        bias = rest[0] if rest else None
        if torch.is_grad_enabled():  # a second derivative is needed
            plain = lambda q, k, v: _attend_plain(Dot(q, k, ctx.scale), v, bias, is_causal=ctx.is_causal)  # noqa: E731
            return (*gradients(plain, (q, k, v), grad), None, None, None)
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        grads = kernel(grad, q, k, v, output, log_sums, 0.0, ctx.is_causal, attn_mask=bias, scale=ctx.scale)
        return (*grads, None, None, None)


def _attend_plain(dot: Dot, v: Tensor, bias: Tensor | None, *, is_causal: bool) -> Tensor:
    """Compute the same with operations that are differentiable twice."""
    scores = dot.q @ dot.k.mT * dot.scale
    if bias is not None:
        scores = scores + bias
    if is_causal:  # aligned at the top left, as in PyTorch; callers have as many queries as keys
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(dim=-1) @ v
