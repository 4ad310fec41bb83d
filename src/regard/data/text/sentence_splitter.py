"""Sentence splitter for English and Korean; sentences are spans of the raw text.

A sentence ends at a line break, or after . ! ? … and closing quotes and brackets, if the following text can start a
sentence. It does not end after an abbreviation (Dr.), an initial (J. Kim) or the number of a list item (1.). It also
does not end before a lowercase letter ("Go!" he said), or if Korean continues after a quotation ("좋다."라고 했다).
Korean text often has no space after the full stop; none is required after 다, 요, 까, 죠, 네, 음, 임.
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
LOOKAHEAD_CHARS = 20  # characters after the end of a sentence that are examined
QUOTE_CONTINUATION = (
    r"\s?(?:라고|이라고|라는|라며|라면서|하고|고\s|며\s|는\s|란\s)"  # Korean particles after a quotation
)
_OPENING = re.compile(f"[{OPENING}]")


@dataclass(frozen=True)
class Splitter:
    """Rules for the end of a sentence."""

    marks: str = ".!?…。！？"  # characters that end a sentence; "": only breaks do
    breaks: str = r"\n|<br\s*/?>"  # regular expression that always separates two sentences and belongs to neither
    abbreviations: tuple[str, ...] = ABBREVIATIONS  # lowercase words after which a full stop does not end a sentence

    def __post_init__(self) -> None:
        try:
            re.compile(self.breaks or "(?!)")
        except re.error as error:
            raise ConfigError(f"breaks={self.breaks!r} is not a regular expression: {error}") from None

    def split(self, text: str) -> list[Span]:
        """Raw text -> (start, stop) of each sentence without surrounding whitespace; a blank text has none."""
        composed = nfc(text)
        spans: list[Span] = []
        for line_start, line_stop in self._lines(composed):
            for start, stop in self._sentences(composed, line_start, line_stop):
                sentence = composed[start:stop]
                if sentence.strip():
                    first = start + len(sentence) - len(sentence.lstrip())
                    spans.append((first, first + len(sentence.strip())))
        if composed == text:
            return spans
        raw = raw_spans(text)
        return [(raw[start][0], raw[stop - 1][1]) for start, stop in spans]

    def _lines(self, text: str) -> list[Span]:
        edges = [0]
        for match in self._breaks.finditer(text):
            edges += [match.start(), match.end()]
        edges.append(len(text))
        return list(zip(edges[::2], edges[1::2], strict=True))

    def _sentences(self, text: str, start: int, stop: int) -> list[Span]:
        if not self.marks:
            return [(start, stop)]
        edges = [start]
        for match in self._ends.finditer(text, start, stop):
            if match.end() < stop and self._ends_sentence(text, edges[-1], match):
                edges.append(match.end())
        return list(zip(edges, [*edges[1:], stop], strict=True))

    def _ends_sentence(self, text: str, start: int, match: re.Match[str]) -> bool:
        """Return True if a sentence that starts at `start` ends after the matched punctuation."""
        before, after = text[start : match.start()], text[match.end() : match.end() + LOOKAHEAD_CHARS]
        mark, closing = match.group("mark"), match.group("closing")
        spaced = after[:1].isspace()
        following = after.lstrip()[:1]
        if not spaced and not (before[-1:] in KOREAN_ENDINGS and _is_hangul(after[:1])):
            return False
        if following.islower() or (closing and re.match(QUOTE_CONTINUATION, after)):
            return False
        if mark != ".":
            return True
        word = _last_word(before)
        is_initial = len(word) == 1 and word.isupper()
        is_list_number = before.strip().isdecimal()
        is_before_number = word.lower() in BEFORE_NUMBERS and following.isdecimal()
        is_abbreviation = word.lower() in self.abbreviations or is_before_number
        return bool(before.strip()) and not (is_initial or is_list_number or is_abbreviation)

    @cached_property
    def _breaks(self) -> re.Pattern[str]:
        return re.compile(self.breaks or "(?!)")

    @cached_property
    def _ends(self) -> re.Pattern[str]:
        return re.compile(rf"(?P<mark>[{re.escape(self.marks)}]+)(?P<closing>[{CLOSING}]*)")


def _last_word(text: str) -> str:
    """Return the characters after the last whitespace, opening quote or bracket."""
    if not text or text[-1].isspace():
        return ""
    return _OPENING.split(text.rsplit(maxsplit=1)[-1])[-1]


def _is_hangul(character: str) -> bool:
    return bool(character) and "가" <= character <= "힣"
