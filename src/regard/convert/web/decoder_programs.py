"""The two programs of a model that decodes: `start` encodes a source, `step` adds one token to one hypothesis.

The state between two steps is a list of tensors. The page keeps one state per hypothesis, so that a beam needs no
reordering. A KV cache grows by one column per step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.score import ProjectedKeys
from regard.convert.web.trace import Constants, trace
from regard.layers.kv_cache import KV

EXAMPLE_LENGTH = 11  # of a source; sizes that no layer has, because equal sizes share a symbol
EXAMPLE_STEPS = 13


def flatten(state: Any) -> list[Tensor]:
    """State of one hypothesis -> its tensors; a KV cache without spare columns and mask."""
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, KV):
        return [state.k.tensor, state.v]
    if isinstance(state, tuple):
        return [tensor for part in state for tensor in flatten(part)]
    return []


def restore(state: Any, tensors: Iterator[Tensor]) -> Any:
    """Return a state with other tensors, in the order of `flatten`."""
    if isinstance(state, Tensor):
        return next(tensors)
    if isinstance(state, KV):
        return KV.of(ProjectedKeys(next(tensors)), next(tensors))
    if isinstance(state, tuple):
        parts = [restore(part, tensors) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state


def decoder_programs(
    model: nn.Module, start: Callable[..., Any], inputs: Sequence[Tensor], constants: Constants
) -> dict[str, Any]:
    """`start` maps `inputs` to the state before the first token -> the programs `start` and `step`."""
    decoder: Any = model
    with torch.no_grad():
        state = start(*inputs)
        for _ in range(EXAMPLE_STEPS):
            _, state = decoder.features(torch.tensor([[4]]), state)

    def step(token: Tensor, *tensors: Tensor) -> list[Tensor]:
        features, after = decoder.features(token, restore(state, iter(tensors)))
        return [decoder.readout(features)[:, -1], *flatten(after)]

    example = [torch.tensor([[4]]), *(tensor.clone() for tensor in flatten(state))]
    return {
        "start": trace(model, lambda *values: flatten(start(*values)), inputs, constants),
        "step": trace(model, step, example, constants),
    }
