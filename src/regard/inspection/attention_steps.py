"""Intermediate values of attention heads for the step-by-step view: queries, keys, values and score stages."""

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
    "location": "w·tanh(Wq + Vk + Uf)",
    "monotonic_location": "log p + Σ log(1 − p)",
}
KEY_LABELS = {
    "general": "W·k",
    "additive": "U·k",
    "concat": "W·k",
    "cosine": "k / |k|",
    "location": "V·k",
    "monotonic_location": "V·k",
}  # keys projected by the score


def collect_steps(
    model: nn.Module, recorded_calls: Mapping[str, Sequence[AttentionCall]], inspection: Inspection
) -> tuple[HeadComputation, ...]:
    """Return the computations of every head of every short map, the primary map first."""
    modules = attention_modules(model)
    return tuple(
        step
        for attention in _ordered_maps(inspection)
        for step in _heads(attention, modules[attention.module], recorded_calls[attention.module])
    )


def _ordered_maps(inspection: Inspection) -> list[Map]:
    """Return the short maps: the primary map, then the others by layer."""
    primary = inspection.primary_map
    short = [attention for attention in inspection.maps if not is_long(attention.weights)]
    return sorted(short, key=lambda attention: (attention is not primary, attention.layer))


def _heads(attention: Map, module: Attend, calls: Sequence[AttentionCall]) -> list[HeadComputation]:
    batch, (heads, t, s) = attention.batch, attention.weights.shape
    with torch.no_grad():
        stages = [_stages(module, call) for call in calls]
    last, name = calls[-1], _score_name(module)
    normalizer, temperature = _normalizer(module)
    score = module.weigh.place.formula.format(FORMULAS.get(name, "f(q, k)"))
    if temperature != 1:
        score = f"({score}) / {temperature:g}" if module.weigh.depends_on_position else f"{score} / {temperature:g}"
    return [
        HeadComputation(
            map=attention.name,
            head=head,
            formula=f"{normalizer}[ {score} + M ] · V",
            normalizer=normalizer.lower(),
            key=KEY_LABELS.get(name, "k, projected" if module.weigh.score.projects_keys else "k"),
            queries=np.concatenate([_array(call.q, batch, head) for call in calls])[:t],
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
    """Return the stages of the score of one call, by name (b h t s)."""
    weigh, name = module.weigh, _score_name(module)
    stages: dict[str, Tensor] = {}
    if name == "scaled_dot":
        stages["q·k"] = call.q @ call.k.mT
    if weigh.depends_on_position:
        stages["score"] = weigh.score(call.q, call.k)
    last = (
        "with positions"
        if weigh.depends_on_position
        else "÷ √d"
        if name == "scaled_dot"
        else FORMULAS.get(name, "score")
    )
    stages[last] = weigh.scores(call.q, call.k, start=call.mask.start)
    _, temperature = _normalizer(module)
    if temperature != 1:
        stages[f"÷ {temperature:g}"] = stages[last] / temperature
    return stages


def _normalizer(module: Attend) -> tuple[str, float]:
    """Return the name of the normalizer and the temperature."""
    normalizer = module.weigh.normalizer
    if isinstance(normalizer, TemperatureNormalizer):
        return type(normalizer.normalizer).__name__, normalizer.temperature
    return type(normalizer).__name__, 1.0


def _padded(values: FloatArray, last: AttentionCall) -> FloatArray:
    """Pad the scores of an earlier call (t s) to the number of keys of the last call."""
    return np.pad(values, ((0, 0), (0, last.k.shape[-2] - values.shape[1])))


def _score_name(module: Attend) -> str:
    return type(module.weigh.score).__module__.rpartition(".")[2]


def _array(x: Tensor, batch: int, head: int) -> FloatArray:
    """Return one batch row and one head of a tensor (b h …), whose batch size may be 1."""
    return np.asarray(x[min(batch, len(x) - 1), head].float().detach().cpu().numpy(), dtype=np.float32)
