"""The attention between source and target of a sentence pair, as one map: the mean over layers and heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.record import record


@torch.no_grad()
def crossing(task: Any, model: Any, source: str, target: str) -> tuple[list[str], list[str], Tensor]:
    """A sentence pair -> labels of target and source tokens, and weights (t s): row t is what token t looked at."""
    marks = task.marks
    shown = task.show((source, target))
    tokens = task.vocabularies.target.encode([target])[0]
    given = torch.tensor([[marks.start, *tokens]])
    with record(model, only="*cross_attn") as maps:
        model(given, model.start(task.encode_sources([source])))
    weights = torch.stack([found.weights[0].mean(dim=0) for found in maps.values()]).mean(dim=0)
    return shown.target, shown.source, weights
