"""The size of training data, from which settings are derived that the user did not set (training/plan.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class DataSize(NamedTuple):
    """Training examples and their text."""

    unit: str  # one example: "pair", "document"
    examples: int
    characters: int = 0  # of the text, or of the longer side of pairs
    alphabet: int = 0  # distinct characters of the text, or of the side that has more
    hangul_share: float = 0.0  # share of the characters that are Hangul, kana or Han
    rows: int = 0  # rows of an epoch, if a row has several examples, such as the history of a user; 0: one each
    unit_length: float = 0.0  # mean characters of a tagged unit; 0: no units are tagged


_HANGUL = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af]+")


def measure_texts(unit: str, rows: Iterable[tuple[str, ...]]) -> DataSize:
    """Return the size of examples that are texts, or tuples of texts such as pairs."""
    count, characters, num_hangul = 0, [0], 0
    alphabets: list[set[str]] = [set()]
    for row in rows:
        count += 1
        while len(alphabets) < len(row):
            alphabets.append(set())
            characters.append(0)
        for side, text in enumerate(row):
            alphabets[side].update(text)
            characters[side] += len(text)
            num_hangul += sum(map(len, _HANGUL.findall(text)))
    share = num_hangul / max(1, sum(characters))
    return DataSize(unit, count, max(characters), max(map(len, alphabets)), hangul_share=share)
