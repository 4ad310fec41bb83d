"""Interventions on attention for a block of code: disabled heads, hidden items, and a temperature.

They use hooks, so that models need no support for them. A head is disabled by zeroing its output. An item is hidden by
an additional mask. The temperature divides the scores inside the normalizer, so it works with every score and position
scheme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.record import attention_modules
from regard.core.errors import RegardError, did_you_mean
from regard.core.inspectable import Axis, AxisRef, Inspectable

Hook = Callable[..., Any]


@dataclass(frozen=True)
class Interventions:
    """Changes to the attention of a model; the default changes nothing."""

    off: tuple[tuple[str, int], ...] = ()  # disabled heads: (attention module, head)
    forbid: tuple[tuple[str, int], ...] = ()  # hidden items: (axis, item index)
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0.01 <= self.temperature <= 100:
            raise RegardError(f"temperature={self.temperature} must be between 0.01 and 100")


NO_INTERVENTIONS = Interventions()


class TemperatureNormalizer(nn.Module):
    """Divides the scores by a temperature before normalizing them."""

    def __init__(self, normalizer: nn.Module, temperature: float) -> None:
        super().__init__()
        self.normalizer = normalizer
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        weights: Tensor = self.normalizer(scores / self.temperature, allowed)
        return weights


class HiddenItems:
    """Hidden items, also while the model runs on inputs from which other items were removed."""

    def __init__(self, items: tuple[tuple[str, int], ...]) -> None:
        self.items = items  # (axis, item)
        self.removed_axis: str | None = None  # the axis of which batch row i lacks item i

    @contextmanager
    def remove_each_item(self, axis: str) -> Iterator[None]:
        """Inside the block, row i of every batch is the input without item i of an axis; later items move up."""
        self.removed_axis = axis
        try:
            yield
        finally:
            self.removed_axis = None


@contextmanager
def apply_interventions(
    model: nn.Module, interventions: Interventions, inspectable: Inspectable | None = None
) -> Iterator[HiddenItems]:
    """Apply interventions to the model inside the block.

    `inspectable` maps axes and their items to keys of the model; it is needed only to hide items.
    """
    modules, hidden_items = attention_modules(model), HiddenItems(interventions.forbid)
    with ExitStack() as stack:
        for name, head in interventions.off:
            if name not in modules:
                raise RegardError(
                    f"cannot disable a head of {name!r}: no such attention module; {did_you_mean(name, modules)}"
                )
            stack.callback(modules[name].register_forward_hook(_disable_head(name, head)).remove)
        if interventions.forbid and inspectable is not None:
            _check(interventions.forbid, inspectable.axes)
            for module in modules.values():
                if hidden_keys := _hidden_keys(interventions.forbid, inspectable.key_axes.get(module.keys, ())):
                    hook = _hide(hidden_keys, hidden_items)
                    stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
        for module in modules.values() if interventions.temperature != 1 else ():
            stack.enter_context(_with_temperature(module, interventions.temperature))
        yield hidden_items


def _check(forbid: Sequence[tuple[str, int]], axes: Mapping[str, Axis]) -> None:
    for axis, item in forbid:
        if axis not in axes:
            raise RegardError(f"cannot hide an item of {axis!r}: no such axis; {did_you_mean(axis, axes)}")
        last = len(axes[axis].items) - 1
        if not 0 <= item <= last:
            raise RegardError(f"cannot hide item {item} of {axis!r}: it has items 0 to {last}")


@contextmanager
def _with_temperature(module: Attend, temperature: float) -> Iterator[None]:
    """Disable the fast kernels as well: they do not support a temperature."""
    weigh = module.weigh
    original = weigh.normalizer, weigh.soft
    weigh.normalizer, weigh.soft = TemperatureNormalizer(weigh.normalizer, temperature), False
    try:
        yield
    finally:
        weigh.normalizer, weigh.soft = original


def _disable_head(name: str, head: int) -> Hook:
    def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        heads = output.shape[1]
        if not 0 <= head < heads:
            raise RegardError(f"{name} has no head {head}; its heads are 0 to {heads - 1}")
        is_enabled = torch.arange(heads, device=output.device) != head
        return output * is_enabled[:, None, None]  # (b h t e)

    return hook


class HiddenKey(NamedTuple):
    """A key to mask."""

    axis: str
    row: int | None  # batch row; None: all
    column: int


def _hidden_keys(items: Sequence[tuple[str, int]], refs: Sequence[AxisRef]) -> list[HiddenKey]:
    """Return the keys to mask. If there is only one axis, its items are masked in every row: during a search the rows
    are hypotheses of one input."""
    is_single = len(refs) == 1
    return [
        HiddenKey(axis, None if is_single else ref.batch, item)
        for ref in refs
        for axis, item in items
        if axis == ref.axis
    ]


def _hide(hidden_keys: Sequence[HiddenKey], hidden_items: HiddenItems) -> Hook:
    """Add a mask of the hidden keys; keys that do not exist yet, while an output grows, are ignored."""

    def hook(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rows, _, keys, _ = inputs[2].shape
        present = torch.ones(rows, keys, dtype=torch.bool, device=inputs[2].device)
        for axis, row, column in hidden_keys:
            if axis == hidden_items.removed_axis:
                _hide_moved(present, column)
            else:
                present[slice(None) if row is None else slice(row, row + 1), column : column + 1] = False
        mask = inputs[3] if len(inputs) > 3 else kwargs.get("mask", Mask())
        return inputs[:3], {"mask": mask & Mask.present(present)}

    return hook


def _hide_moved(present: Tensor, column: int) -> None:
    """Row i lacks item i: later keys have moved up by one, and row `column` lacks the key itself."""
    for row in range(len(present)):
        moved = column - (column > row)
        if row != column and moved < present.shape[1]:
            present[row, moved] = False
