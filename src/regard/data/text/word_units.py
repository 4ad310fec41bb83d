"""A raw text cut into the units that are tagged - words or characters - with their places in it.

Words are cut as in the usual tagged data: punctuation stands alone, so do 's and n't; @names, #tags, links and numbers
stay whole. A decomposed syllable is one character, and its place spans all its letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from regard.data.text.unicode import nfc, nfc_spans

Span = tuple[int, int]
Unit = Literal["words", "characters"]
WORD_PATTERN = re.compile(
    r"https?://\S+|[@#]\w+|\d+(?:[.,:]\d+)*%?|n't\b|\w+?(?=n't\b)|\w+(?:-\w+)*|'\w+|\.{2,}|[^\w\s]", re.IGNORECASE
)


def word_spans(text: str) -> list[Span]:
    """A raw text -> the places of its words."""
    places = nfc_spans(text)
    return [(places[m.start()][0], places[m.end() - 1][1]) for m in WORD_PATTERN.finditer(nfc(text))]


def character_spans(text: str) -> list[Span]:
    """A raw text -> the places of its characters, spaces included."""
    places = nfc_spans(text)
    return [place for i, place in enumerate(places) if i == 0 or place != places[i - 1]]


SPLITTERS: dict[Unit, Callable[[str], list[Span]]] = {"words": word_spans, "characters": character_spans}
