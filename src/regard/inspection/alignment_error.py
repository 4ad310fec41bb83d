"""Alignment error rate of each map against the true links between two axes (defined in data/text/alignment.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.core.inspectable import Axis, Inspectable
from regard.data.text.alignment import Links, align_words, error_rate
from regard.inspection.json_format import AlignmentResult, Map
from regard.inspection.map_tiles import FloatArray


class AxisWords(NamedTuple):
    """Items of an axis that belong to a word, and the index of that word."""

    items: list[int]
    word_indices: list[int]


def measure_alignment(maps: Sequence[Map], inspectable: Inspectable) -> AlignmentResult | None:
    """Return the error rate of each map between the axes of the truth, and the best map; None without truth or maps."""
    truth = inspectable.truth
    if truth is None:
        return None
    candidates = [item for item in maps if (item.queries, item.keys) == (truth.queries, truth.keys)]
    if not candidates:
        return None
    queries, keys = inspectable.axes[truth.queries], inspectable.axes[truth.keys]
    rows, columns = _words(queries), _words(keys)
    rates: dict[str, dict[str, Any]] = {}
    for attention in candidates:
        heads = [_rate(head, rows, columns, truth.links) for head in attention.weights]
        rates[attention.name] = {
            "mean": _rate(attention.weights.mean(axis=0), rows, columns, truth.links),
            "heads": heads,
        }
    links = tuple(
        (t, s)
        for t, query in zip(*rows, strict=True)
        for s, key in zip(*columns, strict=True)
        if (key, query) in truth.links and _is_word(queries, t) and _is_word(keys, s)
    )
    return AlignmentResult(truth.queries, truth.keys, links, rates, min(rates, key=lambda name: rates[name]["mean"]))


def _words(axis: Axis) -> AxisWords:
    pairs = [(i, item.word) for i, item in enumerate(axis.items) if item.word is not None]
    return AxisWords([i for i, _ in pairs], [word for _, word in pairs])


def _rate(weights: FloatArray, rows: AxisWords, columns: AxisWords, true: Links) -> float:
    """Return the error rate of one head (t s)."""
    word_weights = weights[np.ix_(rows.items, columns.items)]
    return error_rate([align_words(word_weights, source=columns.word_indices, target=rows.word_indices)], [true])


def _is_word(axis: Axis, item: int) -> bool:
    """Return True if an item is not punctuation; only such links are drawn."""
    return any(map(str.isalnum, axis.items[item].text))
