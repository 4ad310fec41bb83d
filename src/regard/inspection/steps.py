"""Every number of one attention head, for the step-by-step view: queries, keys, values, scores, mask, weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.record import attentions
from regard.attention.weigh import Anywhere
from regard.inspection.format import Map, Stage, Step
from regard.inspection.pack import Numbers

ROOM = 700_000  # bytes of the page that the steps of all heads together may take
FORMULAS = {
    "dot": "q·k",
    "scaled_dot": "q·k / √d",
    "general": "q·W·k",
    "additive": "w·tanh(W[q; k])",
    "concat": "w·tanh(Wq + Uk)",
    "cosine": "β·cos(q, k)",
}


class Call(NamedTuple):
    """What one use of attention was given."""

    q: Tensor  # (b h t d)
    k: Tensor  # (b h s d), prepared
    v: Tensor  # (b h s e)
    mask: Mask


@contextmanager
def calls(model: nn.Module) -> Iterator[dict[str, list[Call]]]:
    """Every use of attention inside the block, by module path."""
    seen: dict[str, list[Call]] = {}
    hooks = []
    for name, module in attentions(model).items():
        hooks.append(module.register_forward_hook(_note(seen.setdefault(name, [])), with_kwargs=True))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _note(seen: list[Call]) -> Any:
    def hook(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        mask = inputs[3] if len(inputs) > 3 else kwargs.get("mask", Mask())
        seen.append(Call(inputs[0], inputs[1], inputs[2], mask))

    return hook


def steps(model: nn.Module, seen: dict[str, list[Call]], maps: tuple[Map, ...]) -> tuple[Step, ...]:
    """The heads worth showing, most telling first, as many as there is room for."""
    modules = attentions(model)
    room = ROOM
    found: list[Step] = []
    for one in _telling(maps):
        module = modules[one.name]
        if not seen.get(one.name):
            continue
        for head in range(one.weights.shape[0]):
            step = _step(one, head, module, seen[one.name])
            room -= _size(step)
            if room < 0:
                return tuple(found)
            found.append(step)
    return tuple(found)


def _telling(maps: tuple[Map, ...]) -> list[Map]:
    """The last look at the source first, then from the bottom up."""
    crossing = [one for one in maps if one.group == "cross"]
    first = crossing[-1:]
    return first + [one for one in sorted(maps, key=lambda one: one.layer) if one not in first]


def _step(one: Map, head: int, module: Attend, seen: list[Call]) -> Step:
    with torch.no_grad():
        parts = [_scores(module, call, head) for call in seen]
    stages = [
        Stage(name, np.concatenate([part[0][i].values for part in parts])) for i, name in enumerate(_names(parts[0]))
    ]
    last = seen[-1]
    return Step(
        map=one.name,
        head=head,
        formula=f"{_normalizer(module)}[ {_formula(module)} + M ] · V",
        normalizer=_normalizer(module).lower(),
        queries=np.concatenate([_array(call.q[0, head]) for call in seen]),
        keys=_array(last.k[0, head]),
        values=_array(last.v[0, head]),
        stages=tuple(stages),
        allowed=np.concatenate([part[1] for part in parts]),
        weights=one.weights[head],
    )


def _names(part: tuple[list[Stage], Numbers]) -> list[str]:
    return [stage.name for stage in part[0]]


def _scores(module: Attend, call: Call, head: int) -> tuple[list[Stage], Numbers]:
    """The steps of the score of one call (t s), and who may be looked at (t s)."""
    weigh = module.weigh
    whole = _array(weigh.scores(call.q, call.k)[0, head])
    name, stages = _score_name(module), []
    if name == "scaled_dot":
        stages.append(Stage("q·k", _array((call.q @ call.k.mT)[0, head])))
    if not isinstance(weigh.place, Anywhere):
        stages.append(Stage("score", _array(weigh.score(call.q, call.k)[0, head])))
        stages.append(Stage("with places", whole))
    else:
        stages.append(Stage("÷ √d" if name == "scaled_dot" else FORMULAS.get(name, "score"), whole))
    t, s = call.q.shape[-2], call.k.shape[-2]
    dense = call.mask.dense(t, s, device=call.q.device)
    allowed = torch.ones(t, s) if dense is None else dense[0, min(head, dense.shape[1] - 1)].expand(t, s).float()
    return stages, _array(allowed)


def _score_name(module: Attend) -> str:
    return type(module.weigh.score).__module__.rpartition(".")[2]


def _formula(module: Attend) -> str:
    return FORMULAS.get(_score_name(module), "f(q, k)")


def _normalizer(module: Attend) -> str:
    return type(module.weigh.normalizer).__name__


def _size(step: Step) -> int:
    arrays = [
        step.queries,
        step.keys,
        step.values,
        step.allowed,
        step.weights,
        *(stage.values for stage in step.stages),
    ]
    return sum(array.size for array in arrays) * 16 // 3


def _array(x: Tensor) -> Numbers:
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float32)
