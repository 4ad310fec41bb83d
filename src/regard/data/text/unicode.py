"""Composed Unicode (NFC), and where each composed character stands in the raw text.

The offsets of HF `tokenizers` lose all but the first letter of a decomposed syllable, so the way back is kept here.
"""

from __future__ import annotations

import unicodedata


def nfc(text: str) -> str:
    """A text -> the same text with its characters composed: 한 is one character, not three letters."""
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def nfc_spans(text: str) -> list[tuple[int, int]]:
    """A raw text -> for each character of nfc(text), the (start, stop) of what it was made from."""
    if unicodedata.is_normalized("NFC", text):
        return [(i, i + 1) for i in range(len(text))]
    places: list[tuple[int, int]] = []
    start = 0
    for stop in range(1, len(text) + 1):
        if stop == len(text) or _parts(text[start:stop], text[stop]):
            places += [(start, stop)] * len(unicodedata.normalize("NFC", text[start:stop]))
            start = stop
    return places


def _parts(before: str, character: str) -> bool:
    """Whether a character starts anew, neither reordered into nor composed with what stands before it."""
    if unicodedata.combining(character):
        return False
    compose = unicodedata.normalize
    return compose("NFC", before + character) == compose("NFC", before) + compose("NFC", character)
