"""How well attention finds what decides a document, where that is known: the deciding words, the deciding sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.record import AttentionMap, attentions, record
from regard.core.evaluating import evaluating
from regard.core.tree import map_tensors
from regard.data import batching, labelled
from regard.data.builtin.reviews import Review
from regard.data.labelled import Cut
from regard.data.tokens import Tokenizer
from regard.tasks._classified import inside, words_of

SIGNATURES = {
    "deciding_words": "share of a label's attention that falls on the deciding words, in their sentence if the model "
    "looks at sentences, else in the whole document; mean over the split",
    "deciding_sentence": "share of documents whose deciding sentence has the greatest weight",
}


def shares(
    model: Any, reviews: Sequence[Review], cuts: Sequence[Cut], *, tokenizer: Tokenizer, budget: int
) -> dict[str, float]:
    """Built-in reviews -> both shares, of what the model's attention looks at; empty where it looks at nothing."""
    if not any(attend.queries == "label" for attend in attentions(model).values()):
        return {}
    found: dict[str, list[float]] = {}
    lengths = np.array([sum(map(len, cut.rows)) for cut in cuts])
    with evaluating(model) as device:
        for numbers in batching.by_length(lengths, budget=budget):
            given = labelled.group([cuts[i] for i in numbers])
            with record(model) as maps:
                model(map_tensors(given, lambda x: x.to(device)))
            looks = {attention.keys: attention for attention in maps.values() if attention.queries == "label"}
            first = np.concatenate([[0], np.cumsum([len(cuts[i].rows) for i in numbers])])
            for place, i in enumerate(numbers.tolist()):
                for name, value in _of_document(
                    looks, reviews[i], cuts[i], tokenizer, (place, int(first[place]))
                ).items():
                    found.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _of_document(
    looks: dict[str, AttentionMap], review: Review, cut: Cut, tokenizer: Tokenizer, place: tuple[int, int]
) -> dict[str, float]:
    """`place`: the number of the document in the batch, and of its first sentence."""
    words = words_of(review.text, cut, tokenizer)
    deciding = [word for row in words for word in row if inside(word.item.span, review.words)]
    values: dict[str, float] = {}
    if not deciding:
        return values  # it lies beyond what is read of a document
    row = deciding[0].row
    if "sentences" in looks:
        weights = _row(looks["sentences"], place[0], len(cut.rows))
        values["deciding_sentence"] = float(int(weights.argmax()) == row)
    if "words" in looks:
        weights = _row(looks["words"], place[1] + row, len(cut.rows[row]))
        values["deciding_words"] = float(weights[[word.place for word in deciding]].sum())
    for name, before in (("document", 0), ("text", 1)):
        if name in looks:
            weights = _row(looks[name], place[0], None)
            numbers = [before + word.item.word for word in deciding if word.item.word is not None]
            values["deciding_words"] = float(weights[numbers].sum())
    return values


def _row(attention: AttentionMap, batch: int, length: int | None) -> Tensor:
    """The weights (s) of one row of the batch, heads averaged."""
    weights: Tensor = torch.mean(attention.weights[batch, :, 0], dim=0)
    return weights[:length]
