"""Splits of data that a grammar makes: a text's hash decides, so that no text is in two splits, whatever the seed."""

from __future__ import annotations

import random
from hashlib import blake2b

from regard.core.errors import DataError

SPLITS = ("train", "valid", "test")
HELD_OUT_PERCENT = 10  # of all texts, for valid and for test each


def split_of(text: str) -> str:
    """A text -> the split it belongs to."""
    place = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little") % 100
    if place < HELD_OUT_PERCENT:
        return "valid"
    return "test" if place < 2 * HELD_OUT_PERCENT else "train"


def split_rng(split: str, *, language: str, seed: int) -> random.Random:
    """The random numbers that a split is made with; an unknown split is an error."""
    if split not in SPLITS:
        raise DataError(f"the built-in data has no split {split!r}; known: {', '.join(SPLITS)}")
    return random.Random(f"{seed} {split} {language}")
