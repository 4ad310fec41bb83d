"""Splitting of raw text into units for tagging: words or characters, as spans of the raw text.

Words are split as in common tagged corpora: punctuation, 's and n't are separate units; @names, #tags, links and
numbers are not split. A decomposed syllable is one character, and its span covers all its code points.
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
    """Raw text -> the spans of its words."""
    spans = nfc_spans(text)
    return [(spans[m.start()][0], spans[m.end() - 1][1]) for m in WORD_PATTERN.finditer(nfc(text))]


def character_spans(text: str) -> list[Span]:
    """Raw text -> the spans of its characters, including spaces."""
    spans = nfc_spans(text)
    return [span for i, span in enumerate(spans) if i == 0 or span != spans[i - 1]]


SPLITTERS: dict[Unit, Callable[[str], list[Span]]] = {"words": word_spans, "characters": character_spans}
