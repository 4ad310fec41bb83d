"""Word vectors in the browser: one program from the words of a sum to the cosines of all words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.convert.web.trace import Constants, trace
from regard.tasks.embeddings.inspect import MAX_POINTS
from regard.tasks.embeddings.task import Options
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the program, and the words of a run, most frequent first."""
    model: Any = parts.model
    task: Any = parts.task
    first = task.special_tokens.first_regular_id

    def cosines(words: Tensor, signs: Tensor) -> list[Tensor]:
        unit = normalize(model.vectors.weight[first:], dim=-1)
        total = normalize((unit[words] * signs[:, None]).sum(dim=0), dim=0)
        return [unit @ total, unit]

    return {
        "programs": {"cosines": trace(model, cosines, [torch.tensor([4, 5, 6]), torch.ones(3)], constants)},
        "words": task.token_texts()[first:],
        "lowercase": task.config.lowercase,
        "maxPoints": MAX_POINTS,
        "options": {"properties": {"n": {"type": "integer", "default": Options().n}}},
    }
