"""Tagged sentences as token numbers: units, the tokens and letters of each, their tags, and places in the raw text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, NamedTuple

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from tokenizers import decoders, models, normalizers, trainers
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import did_you_mean
from regard.data import batching
from regard.data.text import tag_schemes, word_units
from regard.data.text.tag_schemes import Entity, Scheme
from regard.data.text.tagged_files import Sentence, Span, entity_spans
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.data.text.unicode import nfc
from regard.layers.document_batch import UnitBatch

UnitMode = Literal["given", "words", "characters", "tokens"]
MAX_UNIT_CHARS = 20  # of a unit that are looked at


class EncodedSentence(NamedTuple):
    """A sentence, or a part of one that is too long."""

    sentence: Sentence  # its units as the model has them
    tokens: list[int]
    first_tokens: list[int]  # the first token of each unit
    characters: list[list[int]]  # of each unit; none where units are not spelt
    tags: list[int]


class TaggedBatch(NamedTuple):
    """Sentences and the tags of their units."""

    sentences: UnitBatch
    tags: Tensor  # (b u), 0 at padding


def train_word_tokenizer(texts: Iterable[str], *, size: int, lowercase: bool, minimum: int) -> Tokenizer:
    """Units -> a tokenizer that has each unit as one token, whatever it is made of."""
    engine = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[SpecialTokens.unk]))
    lower = [normalizers.Lowercase()] if lowercase else []
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), *lower])
    engine.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=minimum, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    engine.train_from_iterator(texts, trainer)
    return Tokenizer(engine)


@dataclass(frozen=True)
class SentenceEncoder:
    """How sentences become numbers."""

    tokenizer: Tokenizer
    unit_mode: UnitMode  # what the units of the model are
    data_unit: word_units.Unit  # what the units of the data are, for texts that come without
    alphabet: str  # letters that units are spelt with; "": units are not spelt
    tags: tuple[str, ...]
    scheme: Scheme  # of the tags
    max_tokens: int  # tokens of a sentence; a longer one is read in parts

    def split_units(self, text: str) -> Sentence:
        """A raw text -> its units, all of them outside."""
        spans = tuple(word_units.SPLITTERS[self.data_unit](text))
        return Sentence(text, spans, (tag_schemes.OUTSIDE,) * len(spans), "")

    def encode(self, sentence: Sentence) -> list[EncodedSentence]:
        """A sentence -> numbers, in as many parts as its length asks for; without units there are none."""
        own, rows = self._units(sentence)
        found = tag_schemes.tags_to_entities(own.tags, "bio")
        bounds = [0]
        held = 0
        for number, row in enumerate(rows):
            if held + len(row) > self.max_tokens and number > bounds[-1]:
                bounds.append(number)
                held = 0
            held += len(row)
        ends = pairwise([*bounds, len(rows)]) if rows else ()
        return [self._part(own, rows, found, first, last) for first, last in ends]

    def _units(self, sentence: Sentence) -> tuple[Sentence, list[list[int]]]:
        """The sentence in the model's units, and the tokens of each: at least one, at most as many as are read."""
        if self.unit_mode == "tokens":
            pieces = [piece for piece in self.tokenizer.encode_with_offsets(sentence.text) if piece.stop > piece.start]
            own = align_entities(sentence, tuple((piece.start, piece.stop) for piece in pieces))
            return own, [[piece.token] for piece in pieces]
        cut = (
            sentence.units if self.unit_mode == "given" else tuple(word_units.SPLITTERS[self.unit_mode](sentence.text))
        )
        own = align_entities(sentence, cut)
        rows = self.tokenizer.encode([own.text[start:stop] for start, stop in own.units])
        return own, [row[: self.max_tokens] or [SpecialTokens.unk] for row in rows]

    def _part(
        self, own: Sentence, rows: Sequence[list[int]], found: Sequence[Entity], first: int, last: int
    ) -> EncodedSentence:
        low, high = bisect_right(found, first, key=lambda e: e.stop), bisect_left(found, last, key=lambda e: e.start)
        moved = [Entity(max(e.start, first) - first, min(e.stop, last) - first, e.type) for e in found[low:high]]
        tags = tag_schemes.entities_to_tags(moved, last - first, self.scheme)
        sizes = np.cumsum([0, *(len(row) for row in rows[first:last])])
        texts = [own.text[start:stop] for start, stop in own.units[first:last]]
        part = own._replace(
            units=own.units[first:last], tags=tuple(tag_schemes.entities_to_tags(moved, last - first, "bio"))
        )
        return EncodedSentence(
            part,
            [token for row in rows[first:last] for token in row],
            sizes[:-1].tolist(),
            [self._spelt(text) for text in texts],
            [self.tags.index(tag) if tag in self.tags else 0 for tag in tags],
        )

    def _spelt(self, text: str) -> list[int]:
        if not self.alphabet:
            return []
        places = (self.alphabet.find(letter) for letter in nfc(text)[:MAX_UNIT_CHARS])
        return [place + len(SPECIAL_TOKENS) if place >= 0 else SpecialTokens.unk for place in places]


def align_entities(sentence: Sentence, spans: tuple[Span, ...]) -> Sentence:
    """The same entities on other units: an entity has every unit that it touches and that none before it has."""
    if spans == sentence.units:
        return sentence
    found: list[Entity] = []
    for start, stop, kind in entity_spans(sentence):
        free = found[-1].stop if found else 0
        touched = [i for i, (a, b) in enumerate(spans) if i >= free and a < stop and b > start]
        if touched:
            found.append(Entity(touched[0], touched[-1] + 1, kind))
    return sentence._replace(units=spans, tags=tuple(tag_schemes.entities_to_tags(found, len(spans), "bio")))


def collate(sentences: Sequence[EncodedSentence]) -> TaggedBatch:
    """Encoded sentences -> padded tensors."""
    tokens = batching.pad([each.tokens for each in sentences])
    firsts, tags = (batching.pad(rows, 0) for rows in zip(*((e.first_tokens, e.tags) for e in sentences), strict=True))
    longest = max((len(letters) for each in sentences for letters in each.characters), default=0)
    spelt: NDArray[np.int64] = np.zeros((len(sentences), firsts.tokens.shape[1], longest), dtype=np.int64)
    for row, each in zip(spelt, sentences, strict=True):
        for cell, letters in zip(row, each.characters, strict=False):
            cell[: len(letters)] = letters
    given = UnitBatch(tokens.tokens, tokens.lengths, firsts.tokens, firsts.lengths, torch.from_numpy(spelt))
    return TaggedBatch(given, tags.tokens)


def collect_alphabet(sentences: Iterable[Sentence]) -> str:
    """The letters of sentences, in order."""
    return "".join(sorted({letter for sentence in sentences for letter in nfc(sentence.text) if not letter.isspace()}))


def unseen_type_warnings(splits: Mapping[str, Iterable[Sentence]], known_types: Collection[str]) -> list[str]:
    """A line for each type of entity that no training sentence has: where it stands first."""
    first: dict[str, str] = {}
    for sentence in chain.from_iterable(splits.values()):
        for *_, kind in entity_spans(sentence):
            if kind not in known_types:
                first.setdefault(kind, sentence.place)
    why = "it is never found and counts as missed"
    return [
        f"{place}: type {kind!r} is not in the training data: {why}; {did_you_mean(kind, known_types)}"
        for kind, place in first.items()
    ]


def detect_unit(sentences: Iterable[Sentence]) -> word_units.Unit:
    """Whether sentences are tagged by words or by characters."""
    longer = any(stop - start > 1 for sentence in sentences for start, stop in sentence.units)
    return "words" if longer else "characters"
