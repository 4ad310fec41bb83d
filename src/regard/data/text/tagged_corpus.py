"""Encoded tagged sentences: units with their tokens, characters, tags and positions in the raw text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from regard.data.text.tokenizer_engine import panics_as_errors
from regard.data.text.unicode import nfc
from regard.layers.document_batch import UnitBatch

UnitMode = Literal["given", "words", "characters", "tokens"]
MAX_UNIT_CHARS = 20  # characters of a unit that are encoded


class EncodedSentence(NamedTuple):
    """A sentence, or a part of a sentence that is too long."""

    sentence: Sentence  # in the units of the model
    tokens: list[int]
    first_tokens: list[int]  # index of the first token of each unit
    characters: list[list[int]]  # character ids of each unit; empty without an alphabet
    tags: list[int]


class TaggedBatch(NamedTuple):
    """Sentences and the tags of their units."""

    sentences: UnitBatch
    tags: Tensor  # (b u), 0 at padding


def train_word_tokenizer(texts: Iterable[str], *, size: int, lowercase: bool, minimum: int) -> Tokenizer:
    """Units -> a tokenizer with one token per unit."""
    engine = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[SpecialTokens.unk]))
    lower = [normalizers.Lowercase()] if lowercase else []
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), *lower])
    engine.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=minimum, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    with panics_as_errors():
        engine.train_from_iterator(texts, trainer)
    return Tokenizer(engine)


@dataclass(frozen=True)
class SentenceEncoder:
    """Encodes sentences as token, character and tag ids."""

    tokenizer: Tokenizer
    unit_mode: UnitMode  # units of the model
    data_unit: word_units.Unit  # units of the data, for raw texts
    alphabet: str  # characters with an id; "": units have no character ids
    tags: tuple[str, ...]
    scheme: Scheme  # tag scheme of the model
    max_tokens: int  # tokens per sentence; a longer sentence is split

    def split_units(self, text: str) -> Sentence:
        """Raw text -> its units, all tagged O."""
        spans = tuple(word_units.SPLITTERS[self.data_unit](text))
        return Sentence(text, spans, (tag_schemes.OUTSIDE,) * len(spans), "")

    def encode(self, sentence: Sentence) -> list[EncodedSentence]:
        """Sentence -> its encoded parts; several if it is too long, none if it has no units."""
        return self.encode_batch([sentence])[0]

    def encode_batch(self, sentences: Iterable[Sentence]) -> list[list[EncodedSentence]]:
        """Sentences -> the encoded parts of each; a unit that occurs several times is tokenized once."""
        return [self._parts(aligned, rows) for aligned, rows in self._units(sentences)]

    def _parts(self, aligned: Sentence, rows: Sequence[list[int]]) -> list[EncodedSentence]:
        entities = tag_schemes.tags_to_entities(aligned.tags, "bio")
        bounds = [0]
        num_tokens = 0
        for index, row in enumerate(rows):
            if num_tokens + len(row) > self.max_tokens and index > bounds[-1]:
                bounds.append(index)
                num_tokens = 0
            num_tokens += len(row)
        ranges = pairwise([*bounds, len(rows)]) if rows else ()
        return [self._part(aligned, rows, entities, start, stop) for start, stop in ranges]

    def _units(self, sentences: Iterable[Sentence]) -> Iterator[tuple[Sentence, list[list[int]]]]:
        """Yield each sentence in the units of the model, and the tokens of each unit: 1 … max_tokens."""
        if self.unit_mode == "tokens":
            for sentence in sentences:
                spans = self.tokenizer.encode_with_offsets(sentence.text)
                pieces = [piece for piece in spans if piece.stop > piece.start]
                aligned = align_entities(sentence, tuple((piece.start, piece.stop) for piece in pieces))
                yield aligned, [[piece.token] for piece in pieces]
            return
        split = None if self.unit_mode == "given" else word_units.SPLITTERS[self.unit_mode]
        all_aligned = [
            align_entities(sentence, tuple(split(sentence.text)) if split else sentence.units) for sentence in sentences
        ]
        texts = [[aligned.text[start:stop] for start, stop in aligned.units] for aligned in all_aligned]
        rows = self.tokenizer.encode_distinct(chain.from_iterable(texts))
        for aligned, units in zip(all_aligned, texts, strict=True):
            yield aligned, [rows[unit][: self.max_tokens] or [SpecialTokens.unk] for unit in units]

    def _part(
        self, sentence: Sentence, rows: Sequence[list[int]], entities: Sequence[Entity], first: int, last: int
    ) -> EncodedSentence:
        low = bisect_right(entities, first, key=lambda entity: entity.stop)
        high = bisect_left(entities, last, key=lambda entity: entity.start)
        clipped = [Entity(max(e.start, first) - first, min(e.stop, last) - first, e.type) for e in entities[low:high]]
        tags = tag_schemes.entities_to_tags(clipped, last - first, self.scheme)
        edges = np.cumsum([0, *(len(row) for row in rows[first:last])])
        texts = [sentence.text[start:stop] for start, stop in sentence.units[first:last]]
        part = sentence._replace(
            units=sentence.units[first:last], tags=tuple(tag_schemes.entities_to_tags(clipped, last - first, "bio"))
        )
        return EncodedSentence(
            part,
            [token for row in rows[first:last] for token in row],
            edges[:-1].tolist(),
            [self._character_ids(text) for text in texts],
            [self.tags.index(tag) if tag in self.tags else 0 for tag in tags],
        )

    def _character_ids(self, text: str) -> list[int]:
        if not self.alphabet:
            return []
        indices = (self.alphabet.find(character) for character in nfc(text)[:MAX_UNIT_CHARS])
        return [index + len(SPECIAL_TOKENS) if index >= 0 else SpecialTokens.unk for index in indices]


def align_entities(sentence: Sentence, spans: tuple[Span, ...]) -> Sentence:
    """Map the entities to other units: an entity gets every unit it overlaps that no earlier entity has."""
    if spans == sentence.units:
        return sentence
    entities: list[Entity] = []
    for start, stop, entity_type in entity_spans(sentence):
        free = entities[-1].stop if entities else 0
        overlapping = [i for i, (a, b) in enumerate(spans) if i >= free and a < stop and b > start]
        if overlapping:
            entities.append(Entity(overlapping[0], overlapping[-1] + 1, entity_type))
    return sentence._replace(units=spans, tags=tuple(tag_schemes.entities_to_tags(entities, len(spans), "bio")))


def collate(sentences: Sequence[EncodedSentence]) -> TaggedBatch:
    """Encoded sentences -> padded tensors."""
    tokens = batching.pad([sentence.tokens for sentence in sentences])
    firsts, tags = (batching.pad(rows, 0) for rows in zip(*((s.first_tokens, s.tags) for s in sentences), strict=True))
    width = max((len(ids) for sentence in sentences for ids in sentence.characters), default=0)
    characters: NDArray[np.int64] = np.zeros((len(sentences), firsts.tokens.shape[1], width), dtype=np.int64)
    for row, sentence in zip(characters, sentences, strict=True):
        for cell, ids in zip(row, sentence.characters, strict=False):
            cell[: len(ids)] = ids
    units = UnitBatch(tokens.tokens, tokens.lengths, firsts.tokens, firsts.lengths, torch.from_numpy(characters))
    return TaggedBatch(units, tags.tokens)


def collect_alphabet(sentences: Iterable[Sentence]) -> str:
    """Return the sorted characters of sentences, without whitespace."""
    characters = {character for sentence in sentences for character in nfc(sentence.text)}
    return "".join(sorted(character for character in characters if not character.isspace()))


def unseen_type_warnings(splits: Mapping[str, Iterable[Sentence]], known_types: Collection[str]) -> list[str]:
    """Return one warning per entity type that no training sentence has, with its first occurrence."""
    first: dict[str, str] = {}
    for sentence in chain.from_iterable(splits.values()):
        for *_, entity_type in entity_spans(sentence):
            if entity_type not in known_types:
                first.setdefault(entity_type, sentence.origin)
    effect = "it is never predicted and counts as missed"
    return [
        f"{location}: type {entity_type!r} is not in the training data: {effect}; "
        f"{did_you_mean(entity_type, known_types)}"
        for entity_type, location in first.items()
    ]


def detect_unit(sentences: Iterable[Sentence]) -> word_units.Unit:
    """Return the unit of tagged sentences: words or characters."""
    longer = any(stop - start > 1 for sentence in sentences for start, stop in sentence.units)
    return "words" if longer else "characters"
