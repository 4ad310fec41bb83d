"""A text cut into sentences, English or Korean, as places in the raw text.

A sentence ends at a line break, or behind . ! ? … and closing quotes and brackets, if something follows that can begin
a sentence. It does not end behind an abbreviation (Dr.), an initial (J. Kim), the number of a list (1.), before a small
letter ("Go!" he said), nor where Korean goes on behind a quotation ("좋다."라고 했다). Korean often has no space behind
the full stop: after 다, 요, 까, 죠, 네, 음, 임 none is needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from regard.core.errors import ConfigError
from regard.data.text.unicode import nfc
from regard.data.text.unicode import nfc_spans as raw_spans

Span = tuple[int, int]
ABBREVIATIONS = (
    *("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "mt", "gen", "col", "sgt", "capt", "lt", "rev", "hon"),
    *("vs", "etc", "e.g", "i.e", "cf", "ca", "al", "inc", "ltd", "co", "corp", "dept"),
    *("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "u.s", "u.k", "a.m", "p.m"),
)
BEFORE_NUMBERS = ("no", "vol", "fig", "p", "pp", "ch")  # abbreviations if a number follows, words otherwise
CLOSING = "\"'”’»」』)\\]}"
OPENING = "\"'“‘«「『(\\[{"
KOREAN_ENDINGS = "다요까죠네음임"
LOOKAHEAD_CHARS = 20  # characters behind the end of a sentence that are looked at
QUOTE_CONTINUATION = (
    r"\s?(?:라고|이라고|라는|라며|라면서|하고|고\s|며\s|는\s|란\s)"  # what Korean puts behind a quotation
)


@dataclass(frozen=True)
class Splitter:
    """Where sentences end."""

    marks: str = ".!?…。！？"  # what ends a sentence; "": only breaks do
    breaks: str = r"\n|<br\s*/?>"  # what always parts two sentences and belongs to neither, as a regular expression
    abbreviations: tuple[str, ...] = ABBREVIATIONS  # words behind which a full stop ends nothing, in small letters

    def __post_init__(self) -> None:
        try:
            re.compile(self.breaks or "(?!)")
        except re.error as wrong:
            raise ConfigError(f"breaks={self.breaks!r} is not a regular expression: {wrong}") from None

    def split(self, text: str) -> list[Span]:
        """A raw text -> (start, stop) of each sentence, blanks around it left out; a blank text has none."""
        composed = nfc(text)
        spans: list[Span] = []
        for start, stop in self._lines(composed):
            for first, last in self._sentences(composed, start, stop):
                inner = composed[first:last]
                if inner.strip():
                    begin = first + len(inner) - len(inner.lstrip())
                    spans.append((begin, begin + len(inner.strip())))
        if composed == text:
            return spans
        raw = raw_spans(text)
        return [(raw[start][0], raw[stop - 1][1]) for start, stop in spans]

    def _lines(self, text: str) -> list[Span]:
        edges = [0]
        for found in self._breaks.finditer(text):
            edges += [found.start(), found.end()]
        edges.append(len(text))
        return list(zip(edges[::2], edges[1::2], strict=True))

    def _sentences(self, text: str, start: int, stop: int) -> list[Span]:
        if not self.marks:
            return [(start, stop)]
        edges = [start]
        for found in self._ends.finditer(text, start, stop):
            if found.end() < stop and self._ends_here(text, edges[-1], found):
                edges.append(found.end())
        return list(zip(edges, [*edges[1:], stop], strict=True))

    def _ends_here(self, text: str, start: int, found: re.Match[str]) -> bool:
        """Whether a sentence that began at `start` ends behind the marks that were found."""
        before, after = text[start : found.start()], text[found.end() : found.end() + LOOKAHEAD_CHARS]
        mark, closing = found.group("mark"), found.group("closing")
        spaced = after[:1].isspace()
        follows = after.lstrip()[:1]
        if not spaced and not (before[-1:] in KOREAN_ENDINGS and _is_hangul(after[:1])):
            return False
        if follows.islower() or (closing and re.match(QUOTE_CONTINUATION, after)):
            return False
        if mark != ".":
            return True
        word = re.split(rf"[\s{OPENING}]", before)[-1]
        initial = len(word) == 1 and word.isupper()
        numbered = before.strip().isdigit()
        short = word.lower() in self.abbreviations or (word.lower() in BEFORE_NUMBERS and follows.isdigit())
        return bool(before.strip()) and not (initial or numbered or short)

    @cached_property
    def _breaks(self) -> re.Pattern[str]:
        return re.compile(self.breaks or "(?!)")

    @cached_property
    def _ends(self) -> re.Pattern[str]:
        return re.compile(rf"(?P<mark>[{re.escape(self.marks)}]+)(?P<closing>[{CLOSING}]*)")


def _is_hangul(character: str) -> bool:
    return bool(character) and "가" <= character <= "힣"
