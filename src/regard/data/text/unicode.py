"""Composed Unicode (NFC), and the span of each composed character in the raw text.

The offsets of Hugging Face `tokenizers` cover only the first character of a decomposed syllable, so this module maps
offsets back to the raw text.
"""

from __future__ import annotations

import unicodedata


def nfc(text: str) -> str:
    """Return the text in NFC: 한 is one character, not three."""
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def nfc_spans(text: str) -> list[tuple[int, int]]:
    """Raw text -> for each character of nfc(text), its (start, stop) in the raw text."""
    if unicodedata.is_normalized("NFC", text):
        return [(i, i + 1) for i in range(len(text))]
    spans: list[tuple[int, int]] = []
    start = 0
    for stop in range(1, len(text) + 1):
        if stop == len(text) or _is_boundary(text[start:stop], text[stop]):
            spans += [(start, stop)] * len(unicodedata.normalize("NFC", text[start:stop]))
            start = stop
    return spans


def _is_boundary(before: str, character: str) -> bool:
    """Return True if a character is neither reordered into nor composed with the text before it."""
    if unicodedata.combining(character):
        return False
    compose = unicodedata.normalize
    return compose("NFC", before + character) == compose("NFC", before) + compose("NFC", character)
