"""Output layers and their losses: a linear layer with softmax cross entropy, or with one binary label per class.

The cross entropy is computed in chunks, so that the logits of a batch are never all in memory. Its gradient is computed
in the forward pass, while the logits of a chunk are available. Label smoothing as in Szegedy et al. 2016, section 7.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, linear

from regard.core.tracing import gradients, is_transforming
from regard.layers.linear import linear_one_dnn, use_one_dnn

MAX_CHUNK_LOGITS = 2**22  # logits per chunk, 16 MB: they fit in the cache
MIN_CHUNK_ROWS = 512  # minimum rows per chunk
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, None, None]


class Readout(nn.Linear):
    """(… d) -> logits (… v), with the cross entropy of labels as loss."""

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d), labels (n) -> the sum of -log p(label), with optional label smoothing."""
        return linear_cross_entropy(features, self.weight, self.bias, labels, smoothing)


class MultiLabelReadout(nn.Linear):
    """(… d) -> logits (… v), one independent binary label per class."""

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d), labels (n v) of 0 and 1 -> the sum over examples and classes of -log p."""
        targets = labels.to(features.dtype) * (1 - smoothing) + smoothing / 2
        return binary_cross_entropy_with_logits(self(features), targets, reduction="sum")


def make_readout(dim: int, num_labels: int, *, multi_label: bool) -> Readout | MultiLabelReadout:
    """Return the output layer for examples with one label each, or with several."""
    return MultiLabelReadout(dim, num_labels) if multi_label else Readout(dim, num_labels)


def linear_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> Tensor:
    """Features (n d), weight (v d), bias (v), labels (n) -> the sum of -log p(label), smoothed.

    Under autocast the products have its dtype; logits, loss and accumulated gradients are float32.
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        features, weight, bias = features.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    with torch.autocast(device, enabled=False):
        return _cross_entropy(features, weight, bias, labels, smoothing)


def _cross_entropy(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    if is_transforming():
        return _plain(features, weight, bias, labels, smoothing)
    apply: Any = _LinearCrossEntropy.apply
    loss: Tensor = apply(features, weight, bias, labels, smoothing)
    return loss


def _plain(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    """The same with all logits in memory at the same time, in differentiable operations."""
    logits = _at_least_float32(linear(features, weight, bias))
    return cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


def _at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision to float32; other dtypes are unchanged."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        features, weight, bias, labels, smoothing = inputs
        needs_grad = ctx.needs_input_grad
        total: Tensor = _at_least_float32(features.new_zeros(()))
        d_features = torch.empty_like(features) if needs_grad[0] else None
        d_weight = _at_least_float32(torch.zeros_like(weight)) if needs_grad[1] else None
        d_bias = _at_least_float32(torch.zeros_like(bias)) if bias is not None and needs_grad[2] else None
        chunk_rows = max(MIN_CHUNK_ROWS, MAX_CHUNK_LOGITS // weight.shape[0])
        for low in range(0, labels.shape[0], chunk_rows):
            x, y = features[low : low + chunk_rows], labels[low : low + chunk_rows]
            logits = linear_one_dnn(x, weight, bias) if use_one_dnn(x, weight) else linear(x, weight, bias)
            chunk_loss, exact_d_logits = _loss_and_gradient(_at_least_float32(logits), y, smoothing)
            total += chunk_loss
            d_logits = exact_d_logits.to(x.dtype)
            if d_features is not None:
                torch.mm(d_logits, weight, out=d_features[low : low + chunk_rows])
            if d_weight is not None:
                _add_product(d_weight, d_logits.mT, x)
            if d_bias is not None:
                d_bias += exact_d_logits.sum(dim=0)
        if smoothing:
            total += _smooth(features, weight, bias, (d_features, d_weight, d_bias), share=smoothing / weight.shape[0])
        ctx.smoothing = smoothing
        ctx.save_for_backward(d_features, d_weight, d_bias, features, weight, bias, labels)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        saved_gradients, (*inputs, labels) = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        if torch.is_grad_enabled():  # for second derivatives
            double_backward = gradients(lambda x, w, b: _plain(x, w, b, labels, ctx.smoothing), inputs, grad)
            return double_backward[0], double_backward[1], double_backward[2], None, None
        d_features, d_weight, d_bias = (None if d is None else d * grad for d in saved_gradients)
        return d_features, d_weight, d_bias, None, None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, in the dtype of the total."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """log Σ exp - (1-ε) logit(label), summed; and its gradient p - (1-ε) [label], which overwrites the logits."""
    rows = torch.arange(labels.shape[0], device=labels.device)
    label_logits, peak = logits[rows, labels], logits.amax(dim=1)
    gradient: Tensor = torch.ops.aten._softmax.out(logits, 1, False, out=logits)
    total = peak - gradient.amax(dim=1).log()  # the largest probability is exp(peak - total), and not close to 0
    gradient[rows, labels] -= 1 - smoothing
    return (total - (1 - smoothing) * label_logits).sum(), gradient


def _smooth(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gradients: tuple[Tensor | None, Tensor | None, Tensor | None],
    *,
    share: float,
) -> Tensor:
    """Return the part of the loss that is the same for all labels, -ε mean logit, and add its gradients.

    It is linear in the logits, so only the sums of features and of weights are needed.
    """
    d_features, d_weight, d_bias = gradients
    dtype = torch.promote_types(features.dtype, torch.float32)  # sums over a batch overflow in half precision
    feature_sum, weight_sum = features.sum(dim=0, dtype=dtype), weight.sum(dim=0, dtype=dtype)  # both (d)
    if d_features is not None:
        d_features -= share * weight_sum
    if d_weight is not None:
        d_weight -= share * feature_sum
    if d_bias is not None:
        d_bias -= share * features.shape[0]
    bias_sum = 0.0 if bias is None else bias.sum() * features.shape[0]
    return -share * (feature_sum @ weight_sum + bias_sum)
