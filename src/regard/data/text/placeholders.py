"""Placeholders: words that translations copy, such as names and code, are replaced by ①, ② … in both texts of a pair.

A small model spells such a word from many subwords, often wrongly. With a placeholder it copies one token, and two
sentences that differ in a name are equal (Post et al. 2019, "An exploration of placeholding in neural machine
translation"). Only words of the Latin script and numbers are replaced, so that a Korean particle may follow one.

A word is copied if at least half of the training targets repeat it. Words that training never saw are copied as well.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from regard.core import checksums
from regard.core.errors import CheckpointError
from regard.core.files import write_text
from regard.data.text.pair_files import Pair, Pairs

PLACEHOLDERS_FILE = "placeholders.json"
SYMBOLS = "①②③④⑤⑥⑦⑧⑨"  # later words of a sentence are spelled
MIN_COPIED_SHARE = 0.5  # of the training pairs with the word in the source
LETTERS = "0-9A-Za-z_À-ÖØ-öø-ɏ"
WORD = re.compile(rf"[{LETTERS}]+(?:[-.:/*@'][{LETTERS}]+)*")
OWN_SYMBOLS = str.maketrans({symbol: str(number) for number, symbol in enumerate(SYMBOLS, start=1)})


class MaskedText(NamedTuple):
    """A text with placeholders, and the word of each placeholder."""

    text: str
    words: tuple[str, ...]

    def mask(self, other: str) -> str:
        """Return another text, such as the translation, with the same words replaced by the same placeholders."""
        symbols = dict(zip(self.words, SYMBOLS, strict=False))
        return WORD.sub(lambda match: symbols.get(match[0], match[0]), other.translate(OWN_SYMBOLS))

    def restore(self, other: str) -> str:
        """Return another text with words in place of placeholders; a placeholder without a word is removed, and with it
        the second of the spaces around it."""
        words = dict(zip(SYMBOLS, self.words, strict=False))
        missing = re.compile(f" *[{SYMBOLS[len(self.words) :]}]") if len(self.words) < len(SYMBOLS) else None
        present = other if missing is None else missing.sub("", other)
        return "".join(words.get(character, character) for character in present)


class Placeholders:
    """Decides which words of a text become placeholders."""

    def __init__(self, translated: Iterable[str], symbols: str = SYMBOLS) -> None:
        self.translated = frozenset(translated)  # words of training sources that most targets do not repeat
        self.symbols = symbols  # the placeholders that occur in the training pairs

    def mask(self, text: str) -> MaskedText:
        """Return a text with placeholders for the words that its translation is expected to copy."""
        return self._mask(text, None)

    def mask_pair(self, pair: Pair) -> Pair:
        """Return a training pair with placeholders for the words that its target does copy."""
        source, target = pair
        masked = self._mask(source, frozenset(WORD.findall(target)))
        return masked.text, masked.mask(target)

    def mask_pairs(self, pairs: Pairs) -> Pairs:
        """Return training pairs with placeholders, which are read as often as the pairs themselves."""
        key = f"{pairs.key} {self.symbols} {checksums.hash_rows(sorted(self.translated))}"
        return replace(pairs, read=lambda: map(self.mask_pair, pairs), key=key)

    def _mask(self, text: str, copied: frozenset[str] | None) -> MaskedText:
        words: dict[str, str] = {}

        def replace(match: re.Match[str]) -> str:
            word = match[0]
            expected = word not in self.translated and (copied is None or word in copied)
            if expected and word not in words and len(words) < len(self.symbols):
                words[word] = self.symbols[len(words)]
            return words.get(word, word)

        return MaskedText(WORD.sub(replace, text.translate(OWN_SYMBOLS)), tuple(words))

    def save(self, folder: Path) -> None:
        """Write the translated words to a run folder."""
        table = {"symbols": self.symbols, "translated": sorted(self.translated)}
        write_text(folder / PLACEHOLDERS_FILE, json.dumps(table, ensure_ascii=False, indent=0) + "\n")


def learn(pairs: Iterable[Pair]) -> Placeholders:
    """Training pairs (iterated twice) -> the placeholders of their words."""
    sources, copies = Counter[str](), Counter[str]()
    for source, target in pairs:
        words = set(WORD.findall(source))
        sources.update(words)
        copies.update(words.intersection(WORD.findall(target)))
    translated = [word for word, count in sources.items() if copies[word] < MIN_COPIED_SHARE * count]
    every = Placeholders(translated)
    used = set[str]().union(*(every.mask_pair(pair)[1] for pair in pairs))
    return Placeholders(translated, "".join(symbol for symbol in SYMBOLS if symbol in used))


def load(folder: Path) -> Placeholders:
    """Return the placeholders of a run folder."""
    path = folder / PLACEHOLDERS_FILE
    try:
        table: Mapping[str, object] = json.loads(path.read_text(encoding="utf-8"))
        symbols, translated = table["symbols"], table["translated"]
        if not isinstance(symbols, str) or not SYMBOLS.startswith(symbols) or not isinstance(translated, list):
            raise ValueError("unexpected content")
        return Placeholders(map(str, translated), symbols)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: the placeholders cannot be read ({error})") from None
