"""How well a map finds the true alignment: the alignment error rate (Och and Ney 2003, section 3.2).

Weights are first added up to words: summed over the tokens of a source word, averaged over those of an output word.
Each output word is linked with the source word it looks at most. With the true links S (all sure) and the found ones A,
AER = 1 - 2·|A ∩ S| / (|A| + |S|).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.inspection.example import Truth
from regard.inspection.format import Alignment, Map


def judge(maps: tuple[Map, ...], truth: Truth) -> Alignment | None:
    """The cross-attention maps and the true links -> each one's error rate, and the best; None without such maps."""
    crossing = [one for one in maps if one.group == "cross"]
    if not crossing:
        return None
    rates: dict[str, dict[str, Any]] = {}
    for one in crossing:
        heads = [error_rate(head, truth) for head in one.weights]
        rates[one.name] = {"mean": error_rate(one.weights.mean(axis=0), truth), "heads": heads}
    best = min(rates, key=lambda name: rates[name]["mean"])
    return Alignment(token_links(truth), rates, best)


def error_rate(weights: NDArray[np.floating], truth: Truth) -> float:
    """(t s) weights of tokens -> the error rate of words, 0 … 1."""
    by_word = words(weights, truth)
    sure = {(row, column) for row, column in truth.links if row < by_word.shape[0] and column < by_word.shape[1]}
    linked = {row for row, _ in sure}  # words that come from nothing are not judged
    found = {(row, int(by_word[row].argmax())) for row in linked}
    if not sure:
        return 0.0
    return 1.0 - 2 * len(found & sure) / (len(found) + len(sure))


def words(weights: NDArray[np.floating], truth: Truth) -> NDArray[np.float64]:
    """(t s) weights of tokens -> weights of words."""
    rows, columns = (np.array(axis) for axis in (truth.rows, truth.columns))
    down, across = rows.max(initial=-1) + 1, columns.max(initial=-1) + 1
    gather_rows = (rows[None] == np.arange(down)[:, None]).astype(np.float64)
    gather_rows /= np.maximum(1, gather_rows.sum(axis=1, keepdims=True))
    gather_columns = (columns[None] == np.arange(across)[:, None]).astype(np.float64)
    return np.asarray(gather_rows @ weights @ gather_columns.T)


def token_links(truth: Truth) -> tuple[tuple[int, int], ...]:
    """The true links of words as links of all their tokens, to be drawn."""
    links = set(truth.links)
    return tuple(
        (t, s) for t, row in enumerate(truth.rows) for s, column in enumerate(truth.columns) if (row, column) in links
    )
