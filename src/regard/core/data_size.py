"""The size of training data, from which settings are derived that the user did not set (training/plan.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class DataSize(NamedTuple):
    """Training examples and their text."""

    unit: str  # one example: "pair", "document"
    examples: int
    characters: int = 0  # of the text, or of the longer side of pairs
    alphabet: int = 0  # distinct characters of the text, or of the side that has more


def measure_texts(unit: str, rows: Iterable[tuple[str, ...]]) -> DataSize:
    """Return the size of examples that are texts, or tuples of texts such as pairs."""
    count, characters = 0, [0]
    alphabets: list[set[str]] = [set()]
    for row in rows:
        count += 1
        while len(alphabets) < len(row):
            alphabets.append(set())
            characters.append(0)
        for side, text in enumerate(row):
            alphabets[side].update(text)
            characters[side] += len(text)
    return DataSize(unit, count, max(characters), max(map(len, alphabets)))
