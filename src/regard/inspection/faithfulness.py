"""Two faithfulness metrics per attention map: agreement with gradient × input, and effect of removing the most attended
item. They accompany every map, because attention weights alone are not an explanation.

Agreement: the rank correlation between the weights of a row and |gradient × input| of the log probability of the output
for each item (Jain and Wallace 2019, section 4.1). Removal: the share of outputs that change when the most attended
item of a head is removed. Both compare a head with a table of outputs × items, computed once per axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.cancellation import check_cancelled
from regard.core.inspectable import Axis, Inspectable
from regard.core.tied_ranks import middle_ranks
from regard.inspection.interventions import HiddenItems, Interventions, apply_interventions
from regard.inspection.json_format import Faithfulness, Map

Array = NDArray[np.float64]
EvidenceTables = dict[str, Array]  # axis -> (outputs items)
MIN_RANKED_ITEMS = 3  # a rank correlation of fewer items is meaningless
MAX_GRADIENT_OUTPUTS = 48  # outputs with gradients, evenly spaced if there are more, to limit the time of an inspection
MAX_REMOVED_ITEMS = 64  # items removed by running the model again


class Evidence(NamedTuple):
    """Dependence of each output on each item of an axis."""

    gradient: EvidenceTables  # rows of outputs that were not computed are NaN
    removal: EvidenceTables  # 1 = the output changes


def gather_evidence(
    model: nn.Module, inspectable: Inspectable, axes: Iterable[str], *, hidden_items: HiddenItems | None = None
) -> Evidence:
    """Compute the evidence tables of all axes that support it. `hidden_items` stay hidden while others are removed."""
    names = [name for name in dict.fromkeys(axes) if name in inspectable.axes]
    names.sort(key=lambda name: inspectable.axes[name].parent is not None)  # upper levels first
    return Evidence(_gradients(model, inspectable, names), _removals(model, inspectable, names, hidden_items))


def _gradients(model: nn.Module, inspectable: Inspectable, axis_names: Iterable[str]) -> EvidenceTables:
    """Return |gradient × input| of the log probability of each output, summed over the features of an item."""
    axes = {name: inspectable.axes[name] for name in axis_names if inspectable.axes[name].input in inspectable.inputs}
    inputs = {axis.input: inspectable.inputs[axis.input] for axis in axes.values()}
    if not inputs:
        return {}
    with torch.enable_grad(), _input_leaves(model, inputs) as leaves:
        log_probs = inspectable.replay().log_softmax(dim=-1)
        outputs = log_probs.gather(-1, inspectable.predicted_ids[:, None])[:, 0].unbind()
    if not leaves or not outputs[0].requires_grad:
        return {}
    axes = {name: axis for name, axis in axes.items() if axis.input in leaves}
    tables = {name: np.full((len(outputs), len(axis.items)), np.nan) for name, axis in axes.items()}
    for index in np.unique(np.linspace(0, len(outputs) - 1, MAX_GRADIENT_OUTPUTS).round().astype(int)):
        check_cancelled()
        products = _products(outputs[index], leaves, inputs)
        for name, axis in axes.items():
            batch = _batch_index(name, inspectable)
            tables[name][index] = _array(_sum_by_item(products[axis.input], axis, batch).abs())
    return tables


def _products(output: Tensor, leaves: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return gradient × input of each input, in its shape; token inputs get a last axis of features."""
    gradients = torch.autograd.grad(output, list(leaves.values()), retain_graph=True, allow_unused=True)
    products = {}
    for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True):
        product = torch.zeros_like(leaf) if gradient is None else gradient * leaf.detach()
        shape = inputs[name].shape
        products[name] = product.reshape(shape if inputs[name].is_floating_point() else (*shape, -1))
    return products


def _sum_by_item(product: Tensor, axis: Axis, batch: int) -> Tensor:
    """Gradient × input (b n …) or (n d) -> sum per item. The items of an image (b c h w) are boxes."""
    row = product if product.dim() == 2 else product[min(batch, len(product) - 1)]
    boxes = [item.box for item in axis.items if item.box is not None]
    if row.dim() == 3 and len(boxes) == len(axis.items) > len(row):
        height, width = row.shape[1:]
        edges = [(round(a * width), round(b * height), round(c * width), round(d * height)) for a, b, c, d in boxes]
        return torch.stack([row[:, top:bottom, left:right].sum() for left, top, right, bottom in edges])
    return row.flatten(1).sum(dim=1)[: len(axis.items)]


def _batch_index(axis: str, inspectable: Inspectable) -> int:
    """Return the batch row of an axis."""
    tables = (inspectable.key_axes, inspectable.query_axes)
    refs = (ref for table in tables for axis_refs in table.values() for ref in axis_refs)
    return next((ref.batch or 0 for ref in refs if ref.axis == axis), 0)


@contextmanager
def _input_leaves(model: nn.Module, inputs: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Replace inputs by autograd leaves inside the block: the embeddings of tokens, or float features themselves.

    An input is recognized by its values, in any shape. Two token inputs with equal values are matched in order.
    """
    leaves: dict[str, Tensor] = {}

    def replace_embedding(_: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
        for name, tokens in inputs.items():
            if name not in leaves and _has_same_values(args[0], tokens):
                leaves[name] = output.detach().requires_grad_()
                return leaves[name]
        return None

    def replace_arguments(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace_features(argument) for argument in args)

    def replace_features(argument: Any) -> Any:
        for name, features in inputs.items():
            if features.is_floating_point() and _has_same_values(argument, features) and not argument.requires_grad:
                leaves.setdefault(name, argument.detach().clone().requires_grad_())
                return leaves[name].view(argument.shape)
        return argument

    with ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_pre_hook(replace_arguments).remove)
            if isinstance(module, nn.Embedding):
                stack.callback(module.register_forward_hook(replace_embedding).remove)
        yield leaves


def _has_same_values(value: Any, expected: Tensor) -> bool:
    if not isinstance(value, Tensor) or value.numel() != expected.numel() or value.dtype != expected.dtype:
        return False
    return torch.equal(value.flatten(), expected.flatten())


@torch.no_grad()
def _removals(
    model: nn.Module, inspectable: Inspectable, axes: Iterable[str], hidden_items: HiddenItems | None
) -> EvidenceTables:
    """Return 1 for each output that changes without an item. The task removes the item, or attention masks it."""
    unchanged, remaining, tables = inspectable.replay().argmax(dim=-1), MAX_REMOVED_ITEMS, {}
    for name in axes:
        count = len(inspectable.axes[name].items)
        if name in inspectable.ablations and (logits := _ablate(inspectable, name, hidden_items)) is not None:
            outputs = logits.argmax(dim=-1)  # (m n)
        elif count <= remaining:
            remaining -= count
            outputs = torch.stack([_predict_without(model, inspectable, name, item) for item in range(count)])
        else:
            continue
        tables[name] = _array((outputs != unchanged).T)
    return tables


def _ablate(inspectable: Inspectable, axis: str, hidden_items: HiddenItems | None) -> Tensor | None:
    """Return logits (m n v) without each item, removed by the task. None if that moves hidden items to positions that
    are unknown."""
    if hidden_items is None or not hidden_items.items or axis not in inspectable.deletion_axes:
        return inspectable.ablations[axis]()
    if not inspectable.deletion_axes[axis]:
        return None
    with hidden_items.remove_each_item(axis):
        return inspectable.ablations[axis]()


def _predict_without(model: nn.Module, inspectable: Inspectable, axis: str, item: int) -> Tensor:
    check_cancelled()
    with apply_interventions(model, Interventions(forbid=((axis, item),)), inspectable):
        return inspectable.replay().argmax(dim=-1)


def measure_faithfulness(attention: Map, evidence: Evidence, answer_axis: str) -> Faithfulness | None:
    """Return the two metrics of each head of a map and of the mean of its heads; None without evidence for its keys."""
    gradient, removal = evidence.gradient.get(attention.keys), evidence.removal.get(attention.keys)
    if gradient is None and removal is None:
        return None
    by_row = attention.queries == answer_axis
    agreement, changes = (_agreement, _changes) if by_row else (_agreement_of_keys, _changes_of_keys)
    maps = [_single(attention, i) for i in range(len(attention.weights))] + [_mean_of_heads(attention)]
    on = [bool(single.weights.any()) for single in maps]  # a disabled head has no weights
    gradients = [agreement(m, 0, gradient) if gradient is not None and on[i] else None for i, m in enumerate(maps)]
    removals = [changes(m, 0, removal) if removal is not None and on[i] else None for i, m in enumerate(maps)]
    return Faithfulness(
        gradient=tuple(gradients[:-1]),
        removal=tuple(removals[:-1]),
        gradient_of_mean=gradients[-1],
        removal_of_mean=removals[-1],
        by_row=by_row,
    )


def _single(attention: Map, head: int) -> Map:
    """Return the map of one head."""
    allowed = attention.allowed
    mask = None if allowed is None else allowed[[min(head, len(allowed) - 1)]]
    return replace(attention, weights=attention.weights[[head]], allowed=mask)


def _mean_of_heads(attention: Map) -> Map:
    """Return the mean of all heads as a map of one head; a key is allowed if any head may attend to it."""
    allowed = attention.allowed
    mask = None if allowed is None else np.asarray(allowed.any(axis=0, keepdims=True), dtype=np.bool_)
    return replace(attention, weights=attention.weights.mean(axis=0, keepdims=True), allowed=mask)


def _agreement(attention: Map, head: int, gradient: Array) -> float | None:
    """Compare each row with the gradients of its output, over the items that are not masked."""
    weights, allowed = attention.weights[head], attention.allowed
    visible = np.ones_like(weights, dtype=bool) if allowed is None else allowed[min(head, len(allowed) - 1)]
    rows = zip(weights, gradient, visible, strict=True)
    return _mean([rank_correlation(row[mask], slope[mask]) for row, slope, mask in rows if not np.isnan(slope).any()])


def _changes(attention: Map, head: int, removal: Array) -> float | None:
    return _mean([removal[t, int(row.argmax())] for t, row in enumerate(attention.weights[head])])


def _agreement_of_keys(attention: Map, head: int, gradient: Array) -> float | None:
    """For rows without an output: compare the mean weight of each key with its gradients over all outputs."""
    return rank_correlation(attention.weights[head].mean(axis=0), np.nansum(gradient, axis=0))


def _changes_of_keys(attention: Map, head: int, removal: Array) -> float | None:
    changes_any = removal.max(axis=0)
    return _mean([changes_any[int(row.argmax())] for row in attention.weights[head]])


def rank_correlation(first: Any, second: Any) -> float | None:
    """Return Spearman's rank correlation, with averaged ties; None for constant or too few values."""
    if len(first) < MIN_RANKED_ITEMS or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.asarray(np.corrcoef(middle_ranks(first), middle_ranks(second)))[0, 1])


def _mean(values: list[Any]) -> float | None:
    defined = [float(value) for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def _array(x: Tensor) -> Array:
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
