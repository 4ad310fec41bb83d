"""The last linear layer of a model and its loss: features to logits, and features and labels to cross entropy.

The loss is computed in chunks, so that the logits of a batch never exist whole. The gradient is made in the forward
pass, while a chunk's logits are at hand. Label smoothing as in Szegedy et al. 2016, section 7.

The last layer where an example may have several labels: a yes or no for each, with its own loss.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, linear

from regard.core.tracing import gradients, is_transforming
from regard.layers.linear import linear_one_dnn, use_one_dnn

MAX_CHUNK_LOGITS = 2**22  # numbers of a chunk, 16 MB: they stay in the cache
MIN_CHUNK_ROWS = 512  # of a chunk at least
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, None, None]


class Readout(nn.Linear):
    """(… d) -> logits (… v), with the cross entropy of labels as its loss."""

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d), labels (n) -> the sum of -log p(label), with smoothed labels where asked for."""
        return linear_cross_entropy(features, self.weight, self.bias, labels, smoothing)


def linear_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> Tensor:
    """Features (n d), weight (v d), bias (v), labels (n) -> the sum of -log p(label), smoothed.

    Under autocast products are of its precision; logits, loss and the sums of gradients are float32."""
    device = features.device.type
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
        features, weight, bias = features.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    with torch.autocast(device, enabled=False):
        return _cross_entropy(features, weight, bias, labels, smoothing)


def _cross_entropy(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    if is_transforming():
        return _plain(features, weight, bias, labels, smoothing)
    apply: Any = _LinearCrossEntropy.apply
    loss: Tensor = apply(features, weight, bias, labels, smoothing)
    return loss


def _plain(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    """The same with all logits at once."""
    logits = _exact(linear(features, weight, bias))
    return cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


def _exact(x: Tensor) -> Tensor:
    """Numbers of half precision as float32; others as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        features, weight, bias, labels, smoothing = given
        needed = ctx.needs_input_grad
        total: Tensor = _exact(features.new_zeros(()))
        d_features = torch.empty_like(features) if needed[0] else None
        d_weight = _exact(torch.zeros_like(weight)) if needed[1] else None
        d_bias = _exact(torch.zeros_like(bias)) if bias is not None and needed[2] else None
        rows = max(MIN_CHUNK_ROWS, MAX_CHUNK_LOGITS // weight.shape[0])
        for low in range(0, labels.shape[0], rows):
            x, y = features[low : low + rows], labels[low : low + rows]
            logits = linear_one_dnn(x, weight, bias) if use_one_dnn(x, weight) else linear(x, weight, bias)
            part, exact_change = _loss_and_gradient(_exact(logits), y, smoothing)
            total += part
            change = exact_change.to(x.dtype)
            if d_features is not None:
                torch.mm(change, weight, out=d_features[low : low + rows])
            if d_weight is not None:
                _add_product(d_weight, change.mT, x)
            if d_bias is not None:
                d_bias += exact_change.sum(dim=0)
        if smoothing:
            total += _smooth(features, weight, bias, (d_features, d_weight, d_bias), share=smoothing / weight.shape[0])
        ctx.smoothing = smoothing
        ctx.save_for_backward(d_features, d_weight, d_bias, features, weight, bias, labels)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        known, (*inputs, labels) = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        if torch.is_grad_enabled():  # a second derivative is wanted
            found = gradients(lambda x, w, b: _plain(x, w, b, labels, ctx.smoothing), inputs, grad)
            return found[0], found[1], found[2], None, None
        d_features, d_weight, d_bias = (None if d is None else d * grad for d in known)
        return d_features, d_weight, d_bias, None, None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, in the precision of the total."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """log Σ exp - (1-ε) logit(label), summed; and its gradient p - (1-ε) [label], in place of the logits."""
    rows = torch.arange(labels.shape[0], device=labels.device)
    picked, peak = logits[rows, labels], logits.amax(dim=1)
    change: Tensor = torch.ops.aten._softmax.out(logits, 1, False, out=logits)
    total = peak - change.amax(dim=1).log()  # the greatest probability is exp(peak - total), and far from 0
    change[rows, labels] -= 1 - smoothing
    return (total - (1 - smoothing) * picked).sum(), change


def _smooth(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gradients: tuple[Tensor | None, Tensor | None, Tensor | None],
    *,
    share: float,
) -> Tensor:
    """The part of the loss that is the same for all labels, -ε mean logit, and what it adds to the gradients.

    It is linear in the logits, so it needs the sums of features and of weights alone.
    """
    d_features, d_weight, d_bias = gradients
    kind = torch.promote_types(features.dtype, torch.float32)  # sums of a whole batch overflow half precision
    summed, words = features.sum(dim=0, dtype=kind), weight.sum(dim=0, dtype=kind)  # both (d)
    if d_features is not None:
        d_features -= share * words
    if d_weight is not None:
        d_weight -= share * summed
    if d_bias is not None:
        d_bias -= share * features.shape[0]
    biases = 0.0 if bias is None else bias.sum() * features.shape[0]
    return -share * (summed @ words + biases)


class MultiLabelReadout(nn.Linear):
    """(… d) -> logits (… v), each for itself."""

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d), labels (n v) of 0 and 1 -> the sum over examples of -log p of all answers."""
        wanted = labels.to(features.dtype) * (1 - smoothing) + smoothing / 2
        return binary_cross_entropy_with_logits(self(features), wanted, reduction="sum")


def make_readout(dim: int, num_labels: int, *, multi_label: bool) -> Readout | MultiLabelReadout:
    """The last layer for documents that have one label each, or several."""
    return MultiLabelReadout(dim, num_labels) if multi_label else Readout(dim, num_labels)
