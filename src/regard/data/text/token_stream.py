"""Text as one long token stream, in memory or memory-mapped, and the crops that a language model is trained on.

Documents are concatenated with an EOS token between them. The index of an example is the position of the first token
of its crop.
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
MAX_UINT16_VOCAB = 2**16  # a vocabulary up to this size needs two bytes per token
PIECE_CHARS = 2**16  # characters per encoded text: the library needs a hundred bytes per token while it encodes
BATCH_PIECES = 64  # pieces per call of the tokenizer


class TokenStream(NamedTuple):
    """All tokens of a text, and the number of its characters."""

    tokens: TokenArray
    num_characters: int

    def crops(self, starts: Indices, length: int) -> Tensor:
        """Start positions (b) -> `length` tokens from each position (b length)."""
        return torch.from_numpy(self.tokens[starts[:, None] + np.arange(length)].astype(np.int64))


class EncodedPart(NamedTuple):
    """Tokens of a part of a text, and the number of its characters."""

    tokens: list[int]
    num_characters: int


def encode_in_memory(documents: Iterable[str], tokenizer: Tokenizer, eos_id: int = SpecialTokens.eos) -> TokenStream:
    """Texts -> their token stream in memory."""
    dtype = np.uint16 if tokenizer.vocab_size <= MAX_UINT16_VOCAB else np.int32
    parts, characters = [np.zeros(0, dtype=dtype)], 0
    for part in encode_parts(documents, tokenizer, eos_id):
        parts.append(np.array(part.tokens, dtype=dtype))
        characters += part.num_characters
    return TokenStream(np.concatenate(parts), characters)


def load_or_build(
    documents: Documents, tokenizer: Tokenizer, eos_id: int = SpecialTokens.eos, *, folder: Path
) -> TokenStream:
    """Texts -> their token stream, mapped from a file in `folder`, which is created if it does not exist."""
    stamp = f"{VERSION} {documents.key} {eos_id}".encode() + tokenizer.engine.to_str().encode()
    path = folder / f"{sha256(stamp).hexdigest()[:24]}.tokens"
    header_path = path.with_suffix(".json")
    if not header_path.exists():
        dtype = "<u2" if tokenizer.vocab_size <= MAX_UINT16_VOCAB else "<i4"
        _write(path, encode_parts(documents, tokenizer, eos_id), dtype=dtype)
    try:
        header = json.loads(header_path.read_text(encoding="utf-8"))
        tokens = np.memmap(path, dtype=header["type"], mode="r")
        intact = len(tokens) == header["count"]
    except (OSError, ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise DataError(f"{path}: damaged; delete it and {header_path.name}, and both are created again")
    return TokenStream(tokens, int(header["characters"]))


def _write(path: Path, parts: Iterable[EncodedPart], *, dtype: str) -> None:
    """Write the tokens and then the header, whose existence means that the tokens are complete."""
    count = characters = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path.parent}: cannot be created ({error.strerror})") from None
    with atomic_write(path) as draft, draft.open("wb") as file:
        for part in parts:
            file.write(np.array(part.tokens, dtype=dtype).tobytes())
            count, characters = count + len(part.tokens), characters + part.num_characters
    if not count:
        raise DataError("there is no text to encode")
    write_text(path.with_suffix(".json"), json.dumps({"type": dtype, "count": count, "characters": characters}))


def encode_parts(
    documents: Iterable[str], tokenizer: Tokenizer, eos_id: int = SpecialTokens.eos
) -> Iterator[EncodedPart]:
    """Texts -> their tokens, part by part, with EOS between documents; blank documents are skipped."""
    prefixed = tokenizer.adds_prefix
    pending: list[tuple[str, bool]] = []  # pieces, and True for the last piece of a document
    prefix: list[int] = []
    characters = 0
    for text in documents:
        if not text.strip():
            continue
        *pieces, last = split_text(text, PIECE_CHARS, keep_space=not prefixed)
        pending += [(piece, False) for piece in pieces] + [(last, True)]
        characters += len(text)
        if len(pending) >= BATCH_PIECES:
            yield EncodedPart(prefix + _concatenate(tokenizer, pending, eos_id), characters)
            pending, prefix, characters = [], [eos_id], 0
    if pending:
        yield EncodedPart(prefix + _concatenate(tokenizer, pending, eos_id), characters)


def _concatenate(tokenizer: Tokenizer, pieces: list[tuple[str, bool]], eos_id: int) -> list[int]:
    """Pieces -> their concatenated tokens, with EOS after every document but the last."""
    tokens: list[int] = []
    for row, (_, is_last_piece) in zip(tokenizer.encode([piece for piece, _ in pieces]), pieces, strict=True):
        tokens += [*row, eos_id] if is_last_piece else row
    return tokens[:-1]


def split_text(text: str, size: int, *, keep_space: bool) -> list[str]:
    """Text -> pieces of about `size` characters whose concatenated tokens are those of the entire text.

    A piece starts at the space before a word, because no token spans that position. A tokenizer that prepends a space
    to every text restores this space, so it is removed for such a tokenizer (`keep_space` False).
    """
    pieces, start = [], 0
    while len(text) - start > size:
        stop = start + size
        while stop > start and not (text[stop] == " " and not text[stop - 1].isspace()):
            stop -= 1
        if stop == start:  # no space within `size` characters: the cut may split a token
            stop = start + size
            pieces.append(text[start:stop])
            start = stop
        else:
            pieces.append(text[start:stop])
            start = stop if keep_space else stop + 1
    return [*pieces, text[start:]]


def epoch_batches(length: int, *, context: int, batch_size: int, seed: int, epoch: int) -> list[Indices]:
    """Stream of `length` tokens -> an epoch's batches of start positions.

    Crops are adjacent and start at a random offset, so an epoch uses every token once, except for less than two crops
    at the ends.
    """
    random = np.random.default_rng(combine_seeds(seed, epoch))
    offset = int(random.integers(min(context, length - context + 1)))
    starts = random.permutation(np.arange(offset, length - context + 1, context))
    return [starts[i : i + batch_size] for i in range(0, len(starts), batch_size)]


class EvaluationWindow(NamedTuple):
    """Window of a stream: tokens start … stop are predicted, those from `scored_from` on are scored."""

    start: int
    scored_from: int
    stop: int


def evaluation_windows(length: int, size: int) -> list[EvaluationWindow]:
    """Return windows of `size` tokens that overlap by half and score every token once.

    Except in the first window, every scored token has at least half a window of context.
    """
    hop = max(1, size // 2)
    windows = [EvaluationWindow(0, 0, min(size, length))]
    while windows[-1].stop < length:
        start = windows[-1].start + hop
        windows.append(EvaluationWindow(start, windows[-1].stop, min(start + size, length)))
    return windows
