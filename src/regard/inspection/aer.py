"""The alignment error rate of a model on data whose true alignment is known: the built-in grammar."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from regard.attention.record import attentions, record
from regard.data.alignment import Links, error_rate, links, word_numbers

CROSS = "*cross_attn"


def alignment_errors(task: Any, model: Any, *, split: str = "test", count: int = 200) -> dict[str, float]:
    """Error rate of each cross-attention, heads averaged, on reference translations; empty where no truth is known."""
    truth = task.true_links(split)
    if truth is None or not attentions(model):
        return {}
    found: dict[str, list[Links]] = defaultdict(list)
    for source, target in task.split(split)[:count]:
        for name, guess in _one(task, model, source, target).items():
            found[name].append(guess)
    return {name: error_rate(guesses, truth[: len(guesses)]) for name, guesses in found.items()}


@torch.no_grad()
def _one(task: Any, model: Any, source: str, target: str) -> dict[str, Links]:
    """A sentence pair -> the word alignment each cross-attention gives."""
    tokens = task.vocabularies.target.encode([target])[0]
    with record(model, only=CROSS) as maps:
        model(torch.tensor([[task.marks.start, *tokens]]), model.start(task.encode_sources([source])))
    sides = zip(task.vocabularies, (source, target), strict=True)
    columns, rows = (word_numbers(text, tokenizer.pieces(text)) for tokenizer, text in sides)
    return {name: links(one.weights[0].mean(dim=0).numpy(), source=columns, target=rows) for name, one in maps.items()}
