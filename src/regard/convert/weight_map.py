"""Weights under two names: how tensors of ours become one of theirs, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class WeightMapping:
    """Weights of ours that are one weight of theirs."""

    ours: tuple[str, ...]
    theirs: str
    out: Callable[[Sequence[Tensor]], Tensor] = lambda own: own[0]
    back: Callable[[Tensor], Sequence[Tensor]] = lambda other: [other]


def same_layer(ours: str, theirs: str) -> list[WeightMapping]:
    """Weight and bias of a layer that is the same on both sides."""
    return [WeightMapping((f"{ours}.{part}",), f"{theirs}.{part}") for part in ("weight", "bias")]


def transposed_layer(ours: Sequence[str], theirs: str) -> list[WeightMapping]:
    """Layers of ours that are one of theirs, which keeps its matrix the other way round: GPT-2's."""
    count = len(ours)
    weight = WeightMapping(
        tuple(f"{name}.weight" for name in ours),
        f"{theirs}.weight",
        lambda own: torch.cat([each.mT for each in own], dim=1),
        lambda other: [part.mT for part in other.chunk(count, dim=1)],
    )
    bias = WeightMapping(
        tuple(f"{name}.bias" for name in ours),
        f"{theirs}.bias",
        lambda tensors: torch.cat(list(tensors)),
        lambda tensor: tensor.chunk(count),
    )
    return [weight, bias]


def scaled(ours: str, theirs: str, factor: float) -> WeightMapping:
    """A weight that is so many times as large there."""
    return WeightMapping((ours,), theirs, lambda own: own[0] * factor, lambda other: [other / factor])


def reshaped(ours: str, theirs: str, out: tuple[int, ...], back: tuple[int, ...]) -> WeightMapping:
    """A weight that has another shape there."""
    return WeightMapping((ours,), theirs, lambda own: own[0].reshape(out), lambda other: [other.reshape(back)])


def permuted_weight(ours: str, theirs: str, order: Tensor, axes: Iterable[int]) -> WeightMapping:
    """A weight whose features stand in another order there: ours[i] is theirs[order[i]], along the axes."""
    inverse = order.argsort()

    def along(tensor: Tensor, places: Tensor) -> Tensor:
        for axis in axes:
            tensor = tensor.index_select(axis, places)
        return tensor

    axes = tuple(axes)
    return WeightMapping((ours,), theirs, lambda own: along(own[0], inverse), lambda other: [along(other, order)])


def to_theirs(pairs: Sequence[WeightMapping], tensors: Mapping[str, Tensor]) -> Tensors:
    """Weights of ours -> theirs."""
    return {
        pair.theirs: pair.out([tensors[name].detach() for name in pair.ours]).clone().contiguous() for pair in pairs
    }


def from_theirs(pairs: Sequence[WeightMapping], tensors: Mapping[str, Tensor]) -> Tensors:
    """Weights of theirs -> ours."""
    found: Tensors = {}
    for pair in pairs:
        if pair.theirs not in tensors:
            raise CheckpointError(f"{pair.theirs}: the model has no such weight; it is of another layout")
        parts = pair.back(tensors[pair.theirs].detach())
        found |= {name: part.clone().contiguous() for name, part in zip(pair.ours, parts, strict=True)}
    return found


def check_supported(layout: str, config: Any, wanted: Mapping[str, Any]) -> None:
    """Refuse a model of ours whose settings the layout has not, in one line with the settings that it has."""
    for name, value in wanted.items():
        given = getattr(config, name)
        if given != value:
            raise ConfigError(f"model.{name}={given!r} does not fit the layout of {layout}, which has {value!r}")


def check_theirs_supported(layout: str, config: Any, wanted: Mapping[str, Any]) -> None:
    """Refuse a model of theirs that has something which ours has not."""
    for name, values in wanted.items():
        given = getattr(config, name, None)
        known = values if isinstance(values, tuple) else (values,)
        if given not in known:
            raise ConfigError(f"{layout} with {name}={given!r}: regard knows {' or '.join(map(repr, known))} only")
