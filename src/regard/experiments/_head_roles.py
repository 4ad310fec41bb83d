"""What the heads of a translation model look at: the token before, the same word, a delimiter, the true alignment."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.attention.record import record
from regard.core.inference_mode import eval_mode
from regard.data import batching
from regard.data.text import pair_sources
from regard.data.text.alignment import Links, word_indices
from regard.data.text.pair_files import Pair
from regard.training.load_run import LoadedRun

ROLES = ("token before", "same word", "delimiter", "alignment")
NUM_PAIRS = 32
Shares = NDArray[np.float64]


class Side(NamedTuple):
    """One side of a pair: its tokens, their words, and which of them are delimiters (the end mark comes last)."""

    tokens: list[int]
    word_indices: list[int]
    is_delimiter: list[bool]


def roles(parts: LoadedRun) -> dict[tuple[str, int], dict[str, float]]:
    """(attention module, head) -> the share of its weight that each role gets, mean over rows of held-out pairs."""
    task: Any = parts.task
    model: Any = parts.model
    pairs = task.split("valid")[:NUM_PAIRS]
    truth = pair_sources.true_links(task.config.origin, "valid")
    assert truth is not None
    source, target = ([_side(task.vocabularies[n], pair[n]) for pair in pairs] for n in (0, 1))
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    with eval_mode(model), record(model) as maps:
        given = batching.pad([[*side.tokens, task.special_tokens.eos] for side in source], task.special_tokens.pad)
        read = batching.pad([[task.special_tokens.bos, *side.tokens] for side in target], task.special_tokens.pad)
        model(read.tokens, model.start(given))
    for name, attention in maps.items():
        weights = attention.weights.double().cpu().numpy()  # (b h t s)
        for number, links in enumerate(truth[: len(pairs)]):
            sides = source[number], target[number]
            for head in range(weights.shape[1]):
                shares = _shares(weights[number, head], (attention.queries, attention.keys), sides, links)
                for role, value in shares.items():
                    found.setdefault((name, head), {}).setdefault(role, []).append(value)
    return {key: {role: fmean(values) for role, values in each.items()} for key, each in found.items()}


def _side(tokenizer: Any, text: str) -> Side:
    pieces = tokenizer.pieces(text)
    marks = [not any(map(str.isalnum, piece.text)) for piece in pieces]
    return Side([piece.token for piece in pieces], word_indices(text, pieces), marks)


def _shares(weights: Shares, axes: tuple[str, str], sides: tuple[Side, Side], links: Links) -> dict[str, float]:
    """Weights (t s) of one head -> what each role that applies gets. Row t of a decoder emits target token t; a key of
    its self-attention is what was read by then, the start mark first."""
    source, target = sides
    if axes == ("target", "source"):
        true = [[(s, t) in links for s in source.word_indices] for t in target.word_indices]
        rows = weights[: len(target.tokens), : len(source.tokens)]
        ended = weights[: len(target.tokens), : len(source.tokens) + 1]
        return {"alignment": _mean(rows, true), "delimiter": _mean(ended, [[*source.is_delimiter, True]] * len(ended))}
    side = source if axes[0] == "source" else target
    inner = weights[: len(side.tokens), : len(side.tokens)]
    size = len(inner)
    words = side.word_indices if axes[0] == "source" else [-1, *side.word_indices[:-1]]  # of what was read
    marks = side.is_delimiter if axes[0] == "source" else [True, *side.is_delimiter[:-1]]
    return {
        "token before": _mean(inner, np.eye(size, k=-1)),
        "same word": _mean(inner, [[one == other for other in words] for one in words]),
        "delimiter": _mean(inner, [marks] * size),
    }


def _mean(weights: Shares, true: Sequence[Sequence[bool]] | Any) -> float:
    """The mean weight that a row gives to what is true."""
    return float((weights * np.asarray(true, dtype=np.float64)).sum(axis=1).mean()) if weights.size else 0.0


def example_pairs(parts: LoadedRun) -> list[Pair]:
    """The pairs whose heads are looked at."""
    task: Any = parts.task
    pairs: list[Pair] = task.split("valid")[:NUM_PAIRS]
    return pairs
