"""Every number of one attention head, for the step-by-step view: queries, keys, values, scores, mask, weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.attend import Attend
from regard.attention.record import attentions
from regard.inspection.calls import Call
from regard.inspection.format import Inspection, Map, Stage, Step
from regard.inspection.maps import is_long
from regard.inspection.pack import Numbers

ROOM = 700_000  # bytes of the page that the steps of all heads together may take
FORMULAS = {
    "dot": "q·k",
    "scaled_dot": "q·k / √d",
    "general": "q·W·k",
    "additive": "w·tanh(Wq + Uk)",
    "concat": "w·tanh(W[q; k])",
    "cosine": "β·cos(q, k)",
}


def steps(model: nn.Module, seen: Mapping[str, Sequence[Call]], inspection: Inspection) -> tuple[Step, ...]:
    """The heads worth showing, most telling first, as many as there is room for."""
    modules = attentions(model)
    room = ROOM
    shown: list[Step] = []
    for attention in _telling(inspection):
        for head in range(len(attention.weights)):
            step = _step(attention, head, modules[attention.module], seen[attention.module])
            room -= _size(step)
            if room < 0:
                return tuple(shown)
            shown.append(step)
    return tuple(shown)


def _telling(inspection: Inspection) -> list[Map]:
    """The map that is looked at first, then from the bottom up."""
    first = inspection.first
    short = [attention for attention in inspection.maps if not is_long(attention.weights)]
    return sorted(short, key=lambda attention: (attention is not first, attention.layer))


def _step(attention: Map, head: int, module: Attend, seen: Sequence[Call]) -> Step:
    batch, (_, t, s) = attention.batch, attention.weights.shape
    with torch.no_grad():
        stages = [_stages(module, call, batch, head) for call in seen]
    last = seen[-1]
    score, normalizer = _score_name(module), type(module.weigh.normalizer).__name__
    allowed = attention.allowed
    return Step(
        map=attention.name,
        head=head,
        formula=f"{normalizer}[ {FORMULAS.get(score, 'f(q, k)')} + M ] · V",
        normalizer=normalizer.lower(),
        queries=np.concatenate([_array(call.q, batch, head) for call in seen])[:t],
        keys=_array(last.k, batch, head)[:s],
        values=_array(last.v, batch, head)[:s],
        stages=tuple(
            Stage(name, np.concatenate([_padded(part[name], last) for part in stages])[:t, :s]) for name in stages[0]
        ),
        allowed=np.ones((t, s), np.float32) if allowed is None else allowed[min(head, len(allowed) - 1)],
        weights=attention.weights[head],
    )


def _stages(module: Attend, call: Call, batch: int, head: int) -> dict[str, Numbers]:
    """The steps of the score of one call, by name (t s)."""
    weigh, name = module.weigh, _score_name(module)
    stages: dict[str, Tensor] = {}
    if name == "scaled_dot":
        stages["q·k"] = call.q @ call.k.mT
    if weigh.placed:
        stages["score"] = weigh.score(call.q, call.k)
    last = "with places" if weigh.placed else "÷ √d" if name == "scaled_dot" else FORMULAS.get(name, "score")
    stages[last] = weigh.scores(call.q, call.k)
    return {stage: _array(values, batch, head) for stage, values in stages.items()}


def _padded(values: Numbers, last: Call) -> Numbers:
    """Scores of an earlier call (t s) with columns for the keys that came later."""
    return np.pad(values, ((0, 0), (0, last.k.shape[-2] - values.shape[1])))


def _score_name(module: Attend) -> str:
    return type(module.weigh.score).__module__.rpartition(".")[2]


def _size(step: Step) -> int:
    arrays = [step.queries, step.keys, step.values, step.allowed, step.weights]
    return sum(array.size for array in [*arrays, *(stage.values for stage in step.stages)]) * 16 // 3


def _array(x: Tensor, batch: int, head: int) -> Numbers:
    """One row of the batch and one head of a tensor (b h …); what all rows share has one."""
    return np.asarray(x[min(batch, len(x) - 1), head].float().detach().cpu().numpy(), dtype=np.float32)
