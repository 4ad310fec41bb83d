"""Word alignment read off attention weights, and how far it is from the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.text.tokenizer import TokenSpan

Links = frozenset[tuple[int, int]]  # (source word, target word), counted from 0


def word_indices(text: str, pieces: Sequence[TokenSpan]) -> list[int]:
    """A text and its tokens -> for each token the number of the word (cut at spaces) it stands in."""
    starts = [i for i in range(len(text)) if not text[i].isspace() and (i == 0 or text[i - 1].isspace())]
    return [max(0, int(np.searchsorted(starts, piece.start, side="right")) - 1) for piece in pieces]


def align_words(weights: NDArray[Any], *, source: Sequence[int], target: Sequence[int]) -> Links:
    """Attention (t s) and the word number of each token -> each target word with the source word it looks at most.

    Weights of tokens are summed over the tokens of a word (averaged over those of a target word, which changes no
    maximum). Rows and columns beyond the word numbers, such as those of end marks, are left out.
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
    """Alignments and the true ones -> the alignment error rate, 0 (best) … 1 (Och and Ney 2003, section 5).

    All true links are possible; sure are those of target words that have one true source word, since an alignment that
    names one source word for each target word cannot have more.
    """
    hits, total = 0, 0
    for guess, true in zip(alignments, truth, strict=True):
        partners = [target for _, target in true]
        sure = {link for link in true if partners.count(link[1]) == 1}
        hits += len(guess & sure) + len(guess & true)
        total += len(guess) + len(sure)
    return 1 - hits / total if total else 0.0
