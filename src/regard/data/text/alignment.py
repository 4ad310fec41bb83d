"""Word alignment from attention weights, and its alignment error rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.text.tokenizer import TokenSpan

Links = frozenset[tuple[int, int]]  # (source word, target word), counted from 0


def word_indices(text: str, pieces: Sequence[TokenSpan]) -> list[int]:
    """Text and its tokens -> for each token the index of its word; words are separated by spaces."""
    starts = [i for i in range(len(text)) if not text[i].isspace() and (i == 0 or text[i - 1].isspace())]
    return [max(0, int(np.searchsorted(starts, piece.start, side="right")) - 1) for piece in pieces]


def align_words(weights: NDArray[Any], *, source: Sequence[int], target: Sequence[int]) -> Links:
    """Attention (t s) and the word index of each token -> each target word with its most attended source word.

    Weights are summed over the tokens of a word. (Averaging over the tokens of a target word would have the same
    maximum.) Rows and columns without a word index, such as those of EOS, are ignored.
    """
    if not source or not target:
        return frozenset()
    inside = np.asarray(weights)[: len(target), : len(source)]
    rows = np.zeros((max(target) + 1, inside.shape[1]))
    np.add.at(rows, np.asarray(target), inside)
    words = np.zeros((rows.shape[0], max(source) + 1))
    np.add.at(words.T, np.asarray(source), rows.T)
    return frozenset((int(words[t].argmax()), t) for t in sorted(set(target)))


def error_rate(alignments: Iterable[Links], truth: Iterable[Links]) -> float:
    """Predicted and true alignments -> the alignment error rate, 0 (best) … 1 (Och and Ney 2003, section 5).

    All true links are possible. Links of target words with exactly one true source word are sure, since an alignment
    with one source word per target word cannot contain more.
    """
    hits, total = 0, 0
    for predicted, true in zip(alignments, truth, strict=True):
        partners = [target for _, target in true]
        sure = {link for link in true if partners.count(link[1]) == 1}
        hits += len(predicted & sure) + len(predicted & true)
        total += len(predicted) + len(sure)
    return 1 - hits / total if total else 0.0
