"""Attention of the heads of a translation model to the previous token, the same word, delimiters and aligned words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from regard.attention.record import record
from regard.core.inference_mode import eval_mode
from regard.data import batching
from regard.data.text import pair_sources
from regard.data.text.alignment import Links, word_indices
from regard.data.text.pair_files import Pair
from regard.training.load_run import LoadedRun

if TYPE_CHECKING:
    from regard.data.text.tokenizer import Tokenizer
    from regard.tasks.translation.task import Translation

ROLES = ("previous token", "same word", "delimiter", "alignment")
NUM_PAIRS = 32
Array = NDArray[np.float64]


class Side(NamedTuple):
    """One side of a sentence pair: tokens, their word indices, and which of them are delimiters."""

    tokens: list[int]
    word_indices: list[int]
    is_delimiter: list[bool]


def roles(run: LoadedRun) -> dict[tuple[str, int], dict[str, float]]:
    """(attention module, head) -> the mean weight of each role over the queries of held-out pairs."""
    task = cast("Translation", run.task)
    model: Any = run.model
    pairs = task.split("valid")[:NUM_PAIRS]
    truth = pair_sources.true_links(task.config.data_source, "valid")
    assert truth is not None
    source, target = ([_encode_side(task.vocabularies[n], pair[n]) for pair in pairs] for n in (0, 1))
    values: dict[tuple[str, int], dict[str, list[float]]] = {}
    with eval_mode(model), record(model) as maps:
        encoder_input = batching.pad(
            [[*side.tokens, task.special_tokens.eos] for side in source], task.special_tokens.pad
        )
        decoder_input = batching.pad(
            [[task.special_tokens.bos, *side.tokens] for side in target], task.special_tokens.pad
        )
        model(decoder_input.tokens, model.start(encoder_input))
    for name, attention in maps.items():
        weights = attention.weights.double().cpu().numpy()  # (b h t s)
        for index, links in enumerate(truth[: len(pairs)]):
            sides = source[index], target[index]
            for head in range(weights.shape[1]):
                role_weights = _role_weights(weights[index, head], (attention.queries, attention.keys), sides, links)
                for role, value in role_weights.items():
                    values.setdefault((name, head), {}).setdefault(role, []).append(value)
    return {key: {role: fmean(means) for role, means in by_role.items()} for key, by_role in values.items()}


def _encode_side(tokenizer: Tokenizer, text: str) -> Side:
    spans = tokenizer.encode_with_offsets(text)
    is_delimiter = [not any(map(str.isalnum, span.text)) for span in spans]
    return Side([span.token for span in spans], word_indices(text, spans), is_delimiter)


def _role_weights(weights: Array, axes: tuple[str, str], sides: tuple[Side, Side], links: Links) -> dict[str, float]:
    """Weights (t s) of one head -> the mean weight of each role that applies.

    Row t of a decoder predicts target token t; the keys of its self-attention are the input tokens, BOS first.
    """
    source, target = sides
    if axes == ("target", "source"):
        aligned = [[(s, t) in links for s in source.word_indices] for t in target.word_indices]
        rows = weights[: len(target.tokens), : len(source.tokens)]
        with_eos = weights[: len(target.tokens), : len(source.tokens) + 1]
        delimiters = [[*source.is_delimiter, True]] * len(with_eos)
        return {"alignment": _mean(rows, aligned), "delimiter": _mean(with_eos, delimiters)}
    side = source if axes[0] == "source" else target
    inner = weights[: len(side.tokens), : len(side.tokens)]
    size = len(inner)
    words = side.word_indices if axes[0] == "source" else [-1, *side.word_indices[:-1]]  # of the input tokens
    is_delimiter = side.is_delimiter if axes[0] == "source" else [True, *side.is_delimiter[:-1]]
    return {
        "previous token": _mean(inner, np.eye(size, k=-1)),
        "same word": _mean(inner, [[query == key for key in words] for query in words]),
        "delimiter": _mean(inner, [is_delimiter] * size),
    }


def _mean(weights: Array, selected: Sequence[Sequence[bool]] | Any) -> float:
    """Return the mean weight of the selected keys over the rows."""
    return float((weights * np.asarray(selected, dtype=np.float64)).sum(axis=1).mean()) if weights.size else 0.0


def example_pairs(run: LoadedRun) -> list[Pair]:
    """Return the pairs on which heads are analyzed."""
    return cast("Translation", run.task).split("valid")[:NUM_PAIRS]
