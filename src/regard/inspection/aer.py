"""The alignment error rate of a model on data whose true alignment is known: the built-in grammar."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch

from regard.attention.record import attentions, record
from regard.data import sources
from regard.inspection.alignment import error_rate
from regard.inspection.example import Truth
from regard.inspection.readers.translation import words_of

CROSS = "*cross_attn"


def alignment_errors(task: Any, model: Any, *, split: str = "test", count: int = 200) -> dict[str, float]:
    """Error rates of each cross-attention, heads averaged, on reference translations; empty where no truth is known."""
    config = task.config
    if config.path is not None or config.name != sources.BUILT_IN or not attentions(model):
        return {}
    rates = defaultdict(list)
    for example in sources.built_in_examples(split, count, seed=config.seed):
        turned = config.source == "ko"
        source, target = (example.target, example.source) if turned else (example.source, example.target)
        links = example.alignment if turned else tuple((row, column) for column, row in example.alignment)
        for name, rate in _one(task, model, source, target, links).items():
            rates[name].append(rate)
    return {name: float(np.mean(found)) for name, found in rates.items()}


@torch.no_grad()
def _one(task: Any, model: Any, source: str, target: str, links: tuple[tuple[int, int], ...]) -> dict[str, float]:
    tokens = task.vocabularies.target.encode([target])[0]
    given = task.encode_sources([source])
    with record(model, only=CROSS) as maps:
        model(torch.tensor([[task.marks.start, *tokens]]), model.start(given))
    rows = words_of(task.vocabularies.target, [*tokens, task.marks.end])
    truth = Truth(links, rows, words_of(task.vocabularies.source, given.tokens[0].tolist()))
    return {name: error_rate(one.weights[0].mean(dim=0).numpy(), truth) for name, one in maps.items()}
