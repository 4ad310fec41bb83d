"""Text as one long row of tokens, in memory or mapped from a file, and the crops that a language model is trained on.

Documents stand end to end with an end mark between two of them. A crop is an example number: the place of its first
token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError, FileError
from regard.core.files import atomic_write, write_text
from regard.core.protocols import Indices
from regard.core.seed import combine_seeds
from regard.data.text.pair_corpus import TokenArray
from regard.data.text.plain_text import Documents
from regard.data.text.tokenizer import Tokenizer

VERSION = 1
MAX_UINT16_VOCAB = 2**16  # a vocabulary up to this size fits two bytes a token
PIECE_CHARS = 2**16  # characters that are encoded as one: the library needs a hundred bytes a token while it encodes
BATCH_PIECES = 64  # that are encoded at once


class TokenStream(NamedTuple):
    """All tokens of a text and how many characters they stand for."""

    tokens: TokenArray
    num_characters: int

    def crops(self, starts: Indices, length: int) -> Tensor:
        """Places (b) -> the tokens (b length) from each place on."""
        return torch.from_numpy(self.tokens[starts[:, None] + np.arange(length)].astype(np.int64))


class EncodedPart(NamedTuple):
    """Some tokens of a text, and the characters they stand for."""

    tokens: list[int]
    num_characters: int


def encode_in_memory(documents: Iterable[str], tokenizer: Tokenizer, eos_id: int = SpecialTokens.eos) -> TokenStream:
    """Texts -> their tokens, held in memory."""
    kind = np.uint16 if tokenizer.vocab_size <= MAX_UINT16_VOCAB else np.int32
    parts, characters = [np.zeros(0, dtype=kind)], 0
    for part in encode_parts(documents, tokenizer, eos_id):
        parts.append(np.array(part.tokens, dtype=kind))
        characters += part.num_characters
    return TokenStream(np.concatenate(parts), characters)


def load_or_build(
    documents: Documents, tokenizer: Tokenizer, eos_id: int = SpecialTokens.eos, *, folder: Path
) -> TokenStream:
    """Texts -> their tokens, mapped from a file in `folder`, which is made if it is not there."""
    stamp = f"{VERSION} {documents.key} {eos_id}".encode() + tokenizer.engine.to_str().encode()
    place = folder / f"{sha256(stamp).hexdigest()[:24]}.tokens"
    header = place.with_suffix(".json")
    if not header.exists():
        _write(
            place,
            encode_parts(documents, tokenizer, eos_id),
            kind="<u2" if tokenizer.vocab_size <= MAX_UINT16_VOCAB else "<i4",
        )
    try:
        facts = json.loads(header.read_text(encoding="utf-8"))
        tokens = np.memmap(place, dtype=facts["type"], mode="r")
        whole = len(tokens) == facts["count"]
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise DataError(f"{place}: damaged; delete it and {header.name}, and they are made anew")
    return TokenStream(tokens, int(facts["characters"]))


def _write(place: Path, parts: Iterable[EncodedPart], *, kind: str) -> None:
    """The tokens, and then the header: with it they are whole."""
    count = characters = 0
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise FileError(f"{place.parent}: cannot be made ({wrong.strerror})") from None
    with atomic_write(place) as beside, beside.open("wb") as file:
        for part in parts:
            file.write(np.array(part.tokens, dtype=kind).tobytes())
            count, characters = count + len(part.tokens), characters + part.num_characters
    if not count:
        raise DataError("there is no text to encode")
    write_text(place.with_suffix(".json"), json.dumps({"type": kind, "count": count, "characters": characters}))


def encode_parts(
    documents: Iterable[str], tokenizer: Tokenizer, eos_id: int = SpecialTokens.eos
) -> Iterator[EncodedPart]:
    """Texts -> their tokens, part by part, with an end mark between two documents; blank ones are left out."""
    prefixed = str(tokenizer.engine.normalizer.normalize_str("a")).startswith(" ")
    waiting: list[tuple[str, bool]] = []  # pieces, and whether a document ends with each
    before: list[int] = []
    characters = 0
    for text in documents:
        if not text.strip():
            continue
        *begun, last = split_text(text, PIECE_CHARS, keep_space=not prefixed)
        waiting += [(piece, False) for piece in begun] + [(last, True)]
        characters += len(text)
        if len(waiting) >= BATCH_PIECES:
            yield EncodedPart(before + _flat(tokenizer, waiting, end=eos_id), characters)
            waiting, before, characters = [], [eos_id], 0
    if waiting:
        yield EncodedPart(before + _flat(tokenizer, waiting, end=eos_id), characters)


def _flat(tokenizer: Tokenizer, pieces: list[tuple[str, bool]], *, end: int) -> list[int]:
    """Pieces -> their tokens in a row, an end mark behind every document but the last."""
    tokens: list[int] = []
    for row, (_, ends) in zip(tokenizer.encode([piece for piece, _ in pieces]), pieces, strict=True):
        tokens += [*row, end] if ends else row
    return tokens[:-1]


def split_text(text: str, size: int, *, keep_space: bool) -> list[str]:
    """A text -> pieces of about `size` characters whose tokens, joined, are those of the whole.

    A piece begins at the space before a word, where no token can stretch over the cut. A tokenizer that sets a space
    before every text puts this space back, so it is left out for it (`keep_space` False).
    """
    pieces, begin = [], 0
    while len(text) - begin > size:
        edge = begin + size
        while edge > begin and not (text[edge] == " " and not text[edge - 1].isspace()):
            edge -= 1
        if edge == begin:  # no space as far as one looks: the cut may split a token
            edge = begin + size
            pieces.append(text[begin:edge])
            begin = edge
        else:
            pieces.append(text[begin:edge])
            begin = edge if keep_space else edge + 1
    return [*pieces, text[begin:]]


def epoch_batches(length: int, *, context: int, batch_size: int, seed: int, epoch: int) -> list[Indices]:
    """A stream of `length` tokens -> an epoch's batches of places. Crops lie side by side from a random first place,
    so an epoch sees every token once but for less than two crops at the ends."""
    random = np.random.default_rng(combine_seeds(seed, epoch))
    first = int(random.integers(min(context, length - context + 1)))
    places = random.permutation(np.arange(first, length - context + 1, context))
    return [places[i : i + batch_size] for i in range(0, len(places), batch_size)]


class EvaluationWindow(NamedTuple):
    """A part of a stream for evaluation: tokens begin … end are predicted, those from `counted` on are scored."""

    start: int
    scored_from: int
    stop: int


def evaluation_windows(length: int, size: int) -> list[EvaluationWindow]:
    """Every token of a stream scored once, in windows of `size` that overlap by half: but for the first window, at
    least half a window stands before each token."""
    hop = max(1, size // 2)
    parts = [EvaluationWindow(0, 0, min(size, length))]
    while parts[-1].stop < length:
        begin = parts[-1].start + hop
        parts.append(EvaluationWindow(begin, parts[-1].stop, min(begin + size, length)))
    return parts
