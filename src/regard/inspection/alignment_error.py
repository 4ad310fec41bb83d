"""How well each map finds the true links between two axes; the error rate itself is that of data/text/alignment.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.core.inspectable import Axis, Inspectable
from regard.data.text.alignment import Links, align_words, error_rate
from regard.inspection.json_format import AlignmentResult, Map
from regard.inspection.map_tiles import FloatArray


class AxisWords(NamedTuple):
    """The items of an axis that belong to a word, and the word of each."""

    items: list[int]
    word_indices: list[int]


def measure_alignment(maps: Sequence[Map], inspectable: Inspectable) -> AlignmentResult | None:
    """Maps and the truth -> the error rate of each map between those axes, and the best; None where there is none."""
    truth = inspectable.truth
    if truth is None:
        return None
    between = [one for one in maps if (one.queries, one.keys) == (truth.queries, truth.keys)]
    if not between:
        return None
    queries, keys = inspectable.axes[truth.queries], inspectable.axes[truth.keys]
    rows, columns = _words(queries), _words(keys)
    rates: dict[str, dict[str, Any]] = {}
    for attention in between:
        heads = [_rate(head, rows, columns, truth.links) for head in attention.weights]
        rates[attention.name] = {
            "mean": _rate(attention.weights.mean(axis=0), rows, columns, truth.links),
            "heads": heads,
        }
    drawn = tuple(
        (t, s)
        for t, query in zip(*rows, strict=True)
        for s, key in zip(*columns, strict=True)
        if (key, query) in truth.links and _spoken(queries, t) and _spoken(keys, s)
    )
    return AlignmentResult(truth.queries, truth.keys, drawn, rates, min(rates, key=lambda name: rates[name]["mean"]))


def _words(axis: Axis) -> AxisWords:
    pairs = [(i, item.word) for i, item in enumerate(axis.items) if item.word is not None]
    return AxisWords([i for i, _ in pairs], [word for _, word in pairs])


def _rate(weights: FloatArray, rows: AxisWords, columns: AxisWords, true: Links) -> float:
    """The error rate of one head (t s)."""
    inside = weights[np.ix_(rows.items, columns.items)]
    return error_rate([align_words(inside, source=columns.word_indices, target=rows.word_indices)], [true])


def _spoken(axis: Axis, item: int) -> bool:
    """Whether an item is more than punctuation: only such are drawn as linked."""
    return any(map(str.isalnum, axis.items[item].text))
