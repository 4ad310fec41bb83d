"""What if: heads switched off, items forbidden, attention made warmer or colder, from outside, for a block of code.

Nothing in a model knows of it. A head is switched off by zeroing what it mixed; an item is forbidden by one more mask;
the temperature divides the scores inside the normaliser, so it is right for every score and position scheme.
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
    """What is changed; the default changes nothing."""

    off: tuple[tuple[str, int], ...] = ()  # (attention module, head)
    forbid: tuple[tuple[str, int], ...] = ()  # (axis, item), counted from 0: nobody may look at it
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0.01 <= self.temperature <= 100:
            raise RegardError(f"temperature={self.temperature} must lie between 0.01 and 100")


NO_INTERVENTIONS = Interventions()


class TemperatureNormalizer(nn.Module):
    """A normaliser whose scores are divided by a temperature first."""

    def __init__(self, normalizer: nn.Module, temperature: float) -> None:
        super().__init__()
        self.normalizer = normalizer
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        weights: Tensor = self.normalizer(scores / self.temperature, allowed)
        return weights


class HiddenItems:
    """What may not be looked at, while the model is run over inputs of which something has been taken out."""

    def __init__(self, items: tuple[tuple[str, int], ...]) -> None:
        self.items = items  # (axis, item)
        self.taken: str | None = None  # the axis of which row i of the batch lacks item i

    @contextmanager
    def remove_each_item(self, axis: str) -> Iterator[None]:
        """Inside the block, row i of every batch is the input without item i of an axis: those behind it move up."""
        self.taken = axis
        try:
            yield
        finally:
            self.taken = None


@contextmanager
def apply_interventions(
    model: nn.Module, interventions: Interventions, inspectable: Inspectable | None = None
) -> Iterator[HiddenItems]:
    """The model behaves as changed inside the block, and as always after it. What axes and their items mean to the
    model is said by `shown`; only to forbid items it is needed."""
    modules, forbidden = attention_modules(model), HiddenItems(interventions.forbid)
    with ExitStack() as undo:
        for name, head in interventions.off:
            if name not in modules:
                raise RegardError(
                    f"no attention module {name!r} to switch a head off in; {did_you_mean(name, modules)}"
                )
            undo.callback(modules[name].register_forward_hook(_silence(name, head)).remove)
        if interventions.forbid and inspectable is not None:
            _check(interventions.forbid, inspectable.axes)
            for module in modules.values():
                if hidden := _hidden(interventions.forbid, inspectable.key_axes.get(module.keys, ())):
                    hook = _forbid(hidden, forbidden)
                    undo.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
        for module in modules.values() if interventions.temperature != 1 else ():
            undo.enter_context(_tempered(module, interventions.temperature))
        yield forbidden


def _check(forbid: Sequence[tuple[str, int]], axes: Mapping[str, Axis]) -> None:
    for axis, item in forbid:
        if axis not in axes:
            raise RegardError(f"no axis {axis!r} to forbid an item of; {did_you_mean(axis, axes)}")
        last = len(axes[axis].items) - 1
        if not 0 <= item <= last:
            raise RegardError(f"cannot forbid item {item} of {axis!r}: it has items 0 to {last}")


@contextmanager
def _tempered(module: Attend, temperature: float) -> Iterator[None]:
    """Without its fast kernels, which know no temperature."""
    weigh = module.weigh
    usual = weigh.normalizer, weigh.soft
    weigh.normalizer, weigh.soft = TemperatureNormalizer(weigh.normalizer, temperature), False
    try:
        yield
    finally:
        weigh.normalizer, weigh.soft = usual


def _silence(name: str, head: int) -> Hook:
    def hook(_: nn.Module, inputs: tuple[Any, ...], mixed: Tensor) -> Tensor:
        heads = mixed.shape[1]
        if not 0 <= head < heads:
            raise RegardError(f"{name} has no head {head}; its heads are 0 to {heads - 1}")
        kept = torch.arange(heads, device=mixed.device) != head
        return mixed * kept[:, None, None]  # (b h t e)

    return hook


class HiddenKey(NamedTuple):
    """A key to hide."""

    axis: str
    row: int | None  # of the batch; None: all
    column: int


def _hidden(forbid: Sequence[tuple[str, int]], places: Sequence[AxisRef]) -> list[HiddenKey]:
    """The keys to hide. An axis that is the only one of its name is hidden in every row: while an output is searched
    for, the rows are hypotheses of one input."""
    alone = len(places) == 1
    return [HiddenKey(axis, None if alone else p.batch, i) for p in places for axis, i in forbid if axis == p.axis]


def _forbid(hidden: Sequence[HiddenKey], forbidden: HiddenItems) -> Hook:
    """One more mask; a key that is not there yet, as an output grows, needs no hiding."""

    def hook(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rows, _, keys, _ = inputs[2].shape
        present = torch.ones(rows, keys, dtype=torch.bool, device=inputs[2].device)
        for axis, row, column in hidden:
            if axis == forbidden.taken:
                _hide_moved(present, column)
            else:
                present[slice(None) if row is None else slice(row, row + 1), column : column + 1] = False
        mask = inputs[3] if len(inputs) > 3 else kwargs.get("mask", Mask())
        return inputs[:3], {"mask": mask & Mask.present(present)}

    return hook


def _hide_moved(present: Tensor, column: int) -> None:
    """Row i lacks item i: a key behind it stands one place further up, and in its own row there is nothing to hide."""
    for row in range(len(present)):
        place = column - (column > row)
        if row != column and place < present.shape[1]:
            present[row, place] = False
