"""Splits of generated texts by a hash of the text, so that no text is in two splits for any seed."""

from __future__ import annotations

import random
from hashlib import blake2b

from regard.core.errors import DataError

SPLITS = ("train", "valid", "test")
HELD_OUT_PERCENT = 10  # of all texts in valid, and in test


def split_of(text: str) -> str:
    """Return the split of a text."""
    bucket = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little") % 100
    if bucket < HELD_OUT_PERCENT:
        return "valid"
    return "test" if bucket < 2 * HELD_OUT_PERCENT else "train"


def split_rng(split: str, *, language: str, seed: int) -> random.Random:
    """Return the random generator of a split; an unknown split is an error."""
    check_split(split)
    return random.Random(f"{seed} {split} {language}")


def check_split(split: str) -> None:
    """Raise a DataError if a split is unknown."""
    if split not in SPLITS:
        raise DataError(f"the built-in data has no split {split!r}; known: {', '.join(SPLITS)}")
