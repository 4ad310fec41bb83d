"""How well the attention of a translation model finds the true word alignment, on whole splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from regard.attention.record import attentions, record
from regard.core.evaluating import evaluating
from regard.core.sizes import Marks
from regard.core.tree import map_tensors
from regard.data import batching
from regard.data.alignment import Links, error_rate, links, word_numbers
from regard.data.text import Pair
from regard.data.tokens import Vocabularies

AXES = ("target", "source")  # queries and keys of the attention between the two sentences
ROWS = 32  # pairs read at once


def alignment_errors(
    model: Any, pairs: Sequence[Pair], truth: Sequence[Links], *, vocabularies: Vocabularies, marks: Marks
) -> dict[str, float]:
    """Pairs and their true links -> the error rate of each attention between target and source, heads averaged.

    The model reads the reference translations. Empty where it has no such attention.
    """
    if AXES not in {(attend.queries, attend.keys) for attend in attentions(model).values()}:
        return {}
    guesses: dict[str, list[Links]] = defaultdict(list)
    with evaluating(model):
        for low in range(0, len(pairs), ROWS):
            for name, aligned in _aligned(model, pairs[low : low + ROWS], vocabularies, marks).items():
                guesses[name] += aligned
    return {name: error_rate(guess, truth[: len(guess)]) for name, guess in guesses.items()}


def _aligned(model: Any, pairs: Sequence[Pair], vocabularies: Vocabularies, marks: Marks) -> dict[str, list[Links]]:
    """Sentence pairs -> the word alignment of each by every attention between target and source."""
    sides = [[tokenizer.pieces(pair[side]) for pair in pairs] for side, tokenizer in enumerate(vocabularies)]
    sources, targets = ([[piece.token for piece in pieces] for pieces in side] for side in sides)
    words = [
        [word_numbers(pair[side], pieces) for pair, pieces in zip(pairs, sides[side], strict=True)] for side in (0, 1)
    ]
    device = next(model.parameters()).device
    source = batching.pad([[*row, marks.end] for row in sources], marks.pad)
    target = batching.pad([[marks.start, *row] for row in targets], marks.pad)
    with record(model) as maps:
        model(target.tokens.to(device), model.start(map_tensors(source, lambda x: x.to(device))))
    return {
        name: [
            links(weights.numpy(), source=columns, target=rows)
            for weights, columns, rows in zip(attention.weights.mean(dim=1).cpu(), *words, strict=True)
        ]
        for name, attention in maps.items()
        if (attention.queries, attention.keys) == AXES
    }
