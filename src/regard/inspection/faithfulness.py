"""Two figures beside each map, so that attention is never shown as explanation by itself.

Agreement with gradient × input: the rank correlation between the weights of a row and how much the log probability of
the answer depends on each item (Jain and Wallace 2019, section 4.1). Removal: how often taking away the item that a
head looks at most changes the answer. Both compare a head with a table of answers × items, made once for each axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.cancellation import check_cancelled
from regard.core.inspectable import Axis, Inspectable
from regard.inspection.interventions import HiddenItems, Interventions, apply_interventions
from regard.inspection.json_format import Faithfulness, Map

Array = NDArray[np.float64]
EvidenceTables = dict[str, Array]  # axis -> (answers items)
MIN_RANKED_ITEMS = 3  # items that must be ranked before a rank correlation says anything
MAX_GRADIENT_OUTPUTS = 48  # whose gradients are computed, evenly chosen of more: a page should not keep people waiting
MAX_REMOVED_ITEMS = 64  # items taken away by running the model again


class Evidence(NamedTuple):
    """How much each answer depends on each item of an axis."""

    gradient: EvidenceTables  # rows of answers that were not tried are NaN
    removal: EvidenceTables  # 1 = the answer changes


def gather_evidence(
    model: nn.Module, inspectable: Inspectable, axes: Iterable[str], *, hidden_items: HiddenItems | None = None
) -> Evidence:
    """A model and what it answered -> the tables of these axes, of those that can be made. What is `forbidden` by a
    change around this call stays so while other items are taken away."""
    wanted = [name for name in dict.fromkeys(axes) if name in inspectable.axes]
    wanted.sort(key=lambda name: inspectable.axes[name].parent is not None)  # of levels, the upper first
    return Evidence(_gradients(model, inspectable, wanted), _removals(model, inspectable, wanted, hidden_items))


def _gradients(model: nn.Module, shown: Inspectable, axes: Iterable[str]) -> EvidenceTables:
    """|gradient × input| of the log probability of each answer, summed over the features of an item."""
    wanted = {name: shown.axes[name] for name in axes if shown.axes[name].input in shown.inputs}
    inputs = {axis.input: shown.inputs[axis.input] for axis in wanted.values()}
    if not inputs:
        return {}
    with torch.enable_grad(), _caught(model, inputs) as leaves:
        answers = shown.replay().log_softmax(dim=-1).gather(-1, shown.predicted_ids[:, None])[:, 0].unbind()
    if not leaves or not answers[0].requires_grad:
        return {}
    wanted = {name: axis for name, axis in wanted.items() if axis.input in leaves}
    tables = {name: np.full((len(answers), len(axis.items)), np.nan) for name, axis in wanted.items()}
    for number in np.unique(np.linspace(0, len(answers) - 1, MAX_GRADIENT_OUTPUTS).round().astype(int)):
        check_cancelled()
        products = _products(answers[number], leaves, inputs)
        for name, axis in wanted.items():
            tables[name][number] = _array(_by_item(products[axis.input], axis, _batch(name, shown)).abs())
    return tables


def _products(answer: Tensor, leaves: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gradient × input of each input, in the shape it was given, with the features of tokens last."""
    slopes = torch.autograd.grad(answer, list(leaves.values()), retain_graph=True, allow_unused=True)
    products = {}
    for (name, leaf), slope in zip(leaves.items(), slopes, strict=True):
        product = torch.zeros_like(leaf) if slope is None else slope * leaf.detach()
        given = inputs[name]
        products[name] = product.reshape(given.shape if given.is_floating_point() else (*given.shape, -1))
    return products


def _by_item(product: Tensor, axis: Axis, batch: int) -> Tensor:
    """Gradient × input (b n …) or (n d) -> the sum for each item. The items of an image (b c h w) are its boxes."""
    row = product if product.dim() == 2 else product[min(batch, len(product) - 1)]
    boxes = [item.box for item in axis.items if item.box is not None]
    if row.dim() == 3 and len(boxes) == len(axis.items) > len(row):
        height, width = row.shape[1:]
        edges = [(round(a * width), round(b * height), round(c * width), round(d * height)) for a, b, c, d in boxes]
        return torch.stack([row[:, top:bottom, left:right].sum() for left, top, right, bottom in edges])
    return row.flatten(1).sum(dim=1)[: len(axis.items)]


def _batch(axis: str, shown: Inspectable) -> int:
    """The row of the batch in which an axis stands."""
    places = (place for names in (shown.key_axes, shown.query_axes) for several in names.values() for place in several)
    return next((place.batch or 0 for place in places if place.axis == axis), 0)


@contextmanager
def _caught(model: nn.Module, inputs: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Inputs caught on their way as leaves that gradients reach: the embeddings of tokens, or the features themselves.

    An input is known by its numbers, whatever its shape. Two token inputs with the same numbers are taken in order.
    """
    leaves: dict[str, Tensor] = {}

    def embedded(_: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor | None:
        for name, tokens in inputs.items():
            if name not in leaves and _same(given[0], tokens):
                leaves[name] = output.detach().requires_grad_()
                return leaves[name]
        return None

    def entering(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_leaf(argument) for argument in given)

    def _leaf(argument: Any) -> Any:
        for name, features in inputs.items():
            if features.is_floating_point() and _same(argument, features) and not argument.requires_grad:
                leaves.setdefault(name, argument.detach().clone().requires_grad_())
                return leaves[name].view(argument.shape)
        return argument

    with ExitStack() as undo:
        for module in model.modules():
            undo.callback(module.register_forward_pre_hook(entering).remove)
            if isinstance(module, nn.Embedding):
                undo.callback(module.register_forward_hook(embedded).remove)
        yield leaves


def _same(given: Any, wanted: Tensor) -> bool:
    same = isinstance(given, Tensor) and given.numel() == wanted.numel() and given.dtype == wanted.dtype
    return same and torch.equal(given.flatten(), wanted.flatten())


@torch.no_grad()
def _removals(
    model: nn.Module, shown: Inspectable, axes: Iterable[str], forbidden: HiddenItems | None
) -> EvidenceTables:
    """Does an answer change without an item? Taken away as the task does it, or else hidden from attention."""
    usual, left, tables = shown.replay().argmax(dim=-1), MAX_REMOVED_ITEMS, {}
    for name in axes:
        if name in shown.ablations and (without := _taken(shown, name, forbidden)) is not None:
            answers = without.argmax(dim=-1)  # (m n)
        elif len(shown.axes[name].items) <= left:
            left -= len(shown.axes[name].items)
            answers = torch.stack([_hidden(model, shown, name, item) for item in range(len(shown.axes[name].items))])
        else:
            continue
        tables[name] = _array((answers != usual).T)
    return tables


def _taken(shown: Inspectable, axis: str, forbidden: HiddenItems | None) -> Tensor | None:
    """Logits (m n v) without each item, taken away as the task does it. None where that moves items of which some are
    forbidden, and nobody can tell where to."""
    if forbidden is None or not forbidden.items or axis not in shown.deletion_axes:
        return shown.ablations[axis]()
    if not shown.deletion_axes[axis]:
        return None
    with forbidden.remove_each_item(axis):
        return shown.ablations[axis]()


def _hidden(model: nn.Module, shown: Inspectable, axis: str, item: int) -> Tensor:
    check_cancelled()
    with apply_interventions(model, Interventions(forbid=((axis, item),)), shown):
        return shown.replay().argmax(dim=-1)


def measure_faithfulness(attention: Map, evidence: Evidence, answer_axis: str) -> Faithfulness | None:
    """A map and the evidence -> its two figures per head; None where there is no evidence of its keys."""
    gradient, removal = evidence.gradient.get(attention.keys), evidence.removal.get(attention.keys)
    if gradient is None and removal is None:
        return None
    by_row = attention.queries == answer_axis
    agreement, changes = (_agreement, _changes) if by_row else (_agreement_received, _changes_received)
    on = [bool(weights.any()) for weights in attention.weights]  # a head that is switched off looks at nothing
    return Faithfulness(
        gradient=tuple(
            agreement(attention, i, gradient) if gradient is not None and on[i] else None for i in range(len(on))
        ),
        removal=tuple(
            changes(attention, i, removal) if removal is not None and on[i] else None for i in range(len(on))
        ),
        by_row=by_row,
    )


def _agreement(attention: Map, head: int, gradient: Array) -> float | None:
    """Each row with what its answer owes to the items it may look at."""
    weights, allowed = attention.weights[head], attention.allowed
    seen = np.ones_like(weights, dtype=bool) if allowed is None else allowed[min(head, len(allowed) - 1)]
    rows = zip(weights, gradient, seen, strict=True)
    return _mean([rank_correlation(row[may], owed[may]) for row, owed, may in rows if not np.isnan(owed).any()])


def _changes(attention: Map, head: int, removal: Array) -> float | None:
    return _mean([removal[t, int(row.argmax())] for t, row in enumerate(attention.weights[head])])


def _agreement_received(attention: Map, head: int, gradient: Array) -> float | None:
    """Rows that emit nothing: what each item receives is compared with what all answers owe it."""
    return rank_correlation(attention.weights[head].mean(axis=0), np.nansum(gradient, axis=0))


def _changes_received(attention: Map, head: int, removal: Array) -> float | None:
    matters = removal.max(axis=0)
    return _mean([matters[int(row.argmax())] for row in attention.weights[head]])


def rank_correlation(first: Any, second: Any) -> float | None:
    """Spearman's rank correlation, ties averaged, or None where there is nothing to rank."""
    if len(first) < MIN_RANKED_ITEMS or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.asarray(np.corrcoef(_ranks(first), _ranks(second)))[0, 1])


def _ranks(values: Any) -> Array:
    """Equal values share the mean of their places."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[group], dtype=np.float64)


def _mean(values: list[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _array(x: Tensor) -> Array:
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
