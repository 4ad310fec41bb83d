"""Mappings between the weights of regard and those of transformers, in both directions."""

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
    """Weights of regard (`regard_names`) that are one weight of transformers (`huggingface_name`)."""

    regard_names: tuple[str, ...]
    huggingface_name: str
    out: Callable[[Sequence[Tensor]], Tensor] = lambda tensors: tensors[0]
    back: Callable[[Tensor], Sequence[Tensor]] = lambda tensor: [tensor]


def same_layer(regard_name: str, huggingface_name: str) -> list[WeightMapping]:
    """Map weight and bias of a layer that is equal in both libraries."""
    return [WeightMapping((f"{regard_name}.{part}",), f"{huggingface_name}.{part}") for part in ("weight", "bias")]


def transposed_layer(regard_names: Sequence[str], huggingface_name: str) -> list[WeightMapping]:
    """Map several layers to one with a transposed matrix, as in GPT-2."""
    count = len(regard_names)
    weight = WeightMapping(
        tuple(f"{name}.weight" for name in regard_names),
        f"{huggingface_name}.weight",
        lambda tensors: torch.cat([tensor.mT for tensor in tensors], dim=1),
        lambda tensor: [part.mT for part in tensor.chunk(count, dim=1)],
    )
    bias = WeightMapping(
        tuple(f"{name}.bias" for name in regard_names),
        f"{huggingface_name}.bias",
        lambda tensors: torch.cat(list(tensors)),
        lambda tensor: tensor.chunk(count),
    )
    return [weight, bias]


def scaled(regard_name: str, huggingface_name: str, factor: float) -> WeightMapping:
    """Map a weight that is larger by a factor in transformers."""
    return WeightMapping(
        (regard_name,), huggingface_name, lambda tensors: tensors[0] * factor, lambda tensor: [tensor / factor]
    )


def reshaped(regard_name: str, huggingface_name: str, out: tuple[int, ...], back: tuple[int, ...]) -> WeightMapping:
    """Map a weight that has another shape in transformers."""
    return WeightMapping(
        (regard_name,), huggingface_name, lambda tensors: tensors[0].reshape(out), lambda tensor: [tensor.reshape(back)]
    )


def permuted_weight(regard_name: str, huggingface_name: str, order: Tensor, axes: Iterable[int]) -> WeightMapping:
    """Map a weight whose features have another order: regard[i] is huggingface[order[i]], along the axes."""
    inverse = order.argsort()

    def permute(tensor: Tensor, indices: Tensor) -> Tensor:
        for axis in axes:
            tensor = tensor.index_select(axis, indices)
        return tensor

    axes = tuple(axes)
    return WeightMapping(
        (regard_name,),
        huggingface_name,
        lambda tensors: permute(tensors[0], inverse),
        lambda tensor: [permute(tensor, order)],
    )


def to_huggingface(pairs: Sequence[WeightMapping], tensors: Mapping[str, Tensor]) -> Tensors:
    """Weights of regard -> weights of transformers."""
    return {
        pair.huggingface_name: pair.out([tensors[name].detach() for name in pair.regard_names]).clone().contiguous()
        for pair in pairs
    }


def from_huggingface(pairs: Sequence[WeightMapping], tensors: Mapping[str, Tensor]) -> Tensors:
    """Weights of transformers -> weights of regard."""
    result: Tensors = {}
    for pair in pairs:
        if pair.huggingface_name not in tensors:
            raise CheckpointError(f"{pair.huggingface_name}: the model has no such weight; it has another architecture")
        parts = pair.back(tensors[pair.huggingface_name].detach())
        result |= {name: part.clone().contiguous() for name, part in zip(pair.regard_names, parts, strict=True)}
    return result


def check_supported(layout: str, config: Any, expected: Mapping[str, Any]) -> None:
    """Raise an error if a model of regard has a setting that the architecture does not support."""
    for name, value in expected.items():
        actual = getattr(config, name)
        if actual != value:
            raise ConfigError(f"model.{name}={actual!r} does not fit {layout}, which has {value!r}")


def check_huggingface_supported(layout: str, config: Any, expected: Mapping[str, Any]) -> None:
    """Raise an error if a model of transformers has a setting that regard does not support."""
    for name, values in expected.items():
        actual = getattr(config, name, None)
        supported = values if isinstance(values, tuple) else (values,)
        if actual not in supported:
            raise ConfigError(f"{layout} with {name}={actual!r}: regard supports {' or '.join(map(repr, supported))}")
