"""Every number of one attention head, for the step-by-step view: queries, keys, values, scores, mask, weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.attend import Attend
from regard.attention.record import attention_modules
from regard.inspection.call_recorder import AttentionCall
from regard.inspection.interventions import TemperatureNormalizer
from regard.inspection.json_format import HeadComputation, Inspection, Map, Stage
from regard.inspection.map_tiles import FloatArray
from regard.inspection.maps import is_long

FORMULAS = {
    "dot": "q·k",
    "scaled_dot": "q·k / √d",
    "general": "q·W·k",
    "additive": "w·tanh(Wq + Uk)",
    "concat": "w·tanh(W[q; k])",
    "cosine": "β·cos(q, k)",
}
KEY_LABELS = {
    "general": "W·k",
    "additive": "U·k",
    "concat": "W·k",
    "cosine": "k / |k|",
}  # what a score makes of keys first


def collect_steps(
    model: nn.Module, recorded_calls: Mapping[str, Sequence[AttentionCall]], inspection: Inspection
) -> tuple[HeadComputation, ...]:
    """Every head of every map that is not long, the most telling first."""
    modules = attention_modules(model)
    return tuple(
        step
        for attention in _telling(inspection)
        for step in _heads(attention, modules[attention.module], recorded_calls[attention.module])
    )


def _telling(inspection: Inspection) -> list[Map]:
    """The map that is looked at first, then from the bottom up."""
    first = inspection.primary_map
    short = [attention for attention in inspection.maps if not is_long(attention.weights)]
    return sorted(short, key=lambda attention: (attention is not first, attention.layer))


def _heads(attention: Map, module: Attend, seen: Sequence[AttentionCall]) -> list[HeadComputation]:
    batch, (heads, t, s) = attention.batch, attention.weights.shape
    with torch.no_grad():
        stages = [_stages(module, call) for call in seen]
    last, name = seen[-1], _score_name(module)
    normalizer, heat = _normalizer(module)
    score = FORMULAS.get(name, "f(q, k)") + ("" if heat == 1 else f" / {heat:g}")
    return [
        HeadComputation(
            map=attention.name,
            head=head,
            formula=f"{normalizer}[ {score} + M ] · V",
            normalizer=normalizer.lower(),
            key=KEY_LABELS.get(name, "k, projected" if module.weigh.score.projects_keys else "k"),
            queries=np.concatenate([_array(call.q, batch, head) for call in seen])[:t],
            keys=_array(last.k, batch, head)[:s],
            values=_array(last.v, batch, head)[:s],
            stages=tuple(
                Stage(
                    stage, np.concatenate([_padded(_array(part[stage], batch, head), last) for part in stages])[:t, :s]
                )
                for stage in stages[0]
            ),
        )
        for head in range(heads)
    ]


def _stages(module: Attend, call: AttentionCall) -> dict[str, Tensor]:
    """The steps of the score of one call, by name (b h t s)."""
    weigh, name = module.weigh, _score_name(module)
    stages: dict[str, Tensor] = {}
    if name == "scaled_dot":
        stages["q·k"] = call.q @ call.k.mT
    if weigh.depends_on_position:
        stages["score"] = weigh.score(call.q, call.k)
    last = (
        "with places" if weigh.depends_on_position else "÷ √d" if name == "scaled_dot" else FORMULAS.get(name, "score")
    )
    stages[last] = weigh.scores(call.q, call.k, start=call.mask.start)
    _, heat = _normalizer(module)
    if heat != 1:
        stages[f"÷ {heat:g}"] = stages[last] / heat
    return stages


def _normalizer(module: Attend) -> tuple[str, float]:
    """What makes a distribution of the scores, and by what they are divided first."""
    normalizer = module.weigh.normalizer
    if isinstance(normalizer, TemperatureNormalizer):
        return type(normalizer.normalizer).__name__, normalizer.temperature
    return type(normalizer).__name__, 1.0


def _padded(values: FloatArray, last: AttentionCall) -> FloatArray:
    """Scores of an earlier call (t s) with columns for the keys that came later."""
    return np.pad(values, ((0, 0), (0, last.k.shape[-2] - values.shape[1])))


def _score_name(module: Attend) -> str:
    return type(module.weigh.score).__module__.rpartition(".")[2]


def _array(x: Tensor, batch: int, head: int) -> FloatArray:
    """One row of the batch and one head of a tensor (b h …); what all rows share has one."""
    return np.asarray(x[min(batch, len(x) - 1), head].float().detach().cpu().numpy(), dtype=np.float32)
