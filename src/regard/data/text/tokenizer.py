"""Tokenizer based on Hugging Face `tokenizers`: subwords (BPE, unigram), words or characters.

A token includes the space before it (" dog"), so the joined tokens are exactly the text, with all its spaces. A space
is prepended to every text, so that its first word has the same token as elsewhere; decoding removes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError, ConfigError, DataError, TrustError
from regard.core.files import write_text
from regard.data.text.tokenizer_engine import (
    CHARACTER_PATTERN,
    SUBWORD_PATTERN,
    WORD_PATTERN,
    TokenizerEngine,
    panics_as_errors,
    parse_engine,
    read_engine,
)
from regard.data.text.unicode import nfc, nfc_spans

Level = Literal["bpe", "unigram", "word", "char"]

SPECIAL_TOKENS = ("<pad> ", "<unknown> ", "<start> ", "<end> ")  # no pre-token ends in a space
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # text of the unknown token


class TokenSpan(NamedTuple):
    """A token and its span in the raw text, without the leading space."""

    token: int
    text: str
    start: int
    stop: int


class Tokenizer:
    """Text <-> token ids. Ids 0 … 3 are special tokens; of these, text is only encoded to the unknown token."""

    def __init__(self, engine: TokenizerEngine | tokenizers.Tokenizer) -> None:
        self.engine = engine if isinstance(engine, TokenizerEngine) else TokenizerEngine(engine)
        self.adds_prefix = self.engine.normalize("a").startswith(" ")  # it prepends a space to every text
        self._bytes = isinstance(self.engine.decoder, decoders.ByteLevel)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, including special tokens."""
        return int(self.engine.get_vocab_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts -> token ids, without special tokens."""
        try:
            encodings = self.engine.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:
            _check_surrogates(texts)
            raise
        return [encoding.ids for encoding in encodings]

    def encode_distinct(self, texts: Iterable[str]) -> dict[str, list[int]]:
        """Texts, some of them equal -> the token ids of each different text."""
        distinct = list(dict.fromkeys(texts))
        return dict(zip(distinct, self.encode(distinct), strict=True))

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Token ids -> texts; special tokens are removed, an unknown token becomes U+FFFD."""
        special_tokens = SpecialTokens()
        removed = {special_tokens.pad, special_tokens.bos, special_tokens.eos}
        plain = [[token for token in row if token not in removed] for row in rows]
        texts: list[str] = self.engine.decode_batch(plain, skip_special_tokens=False)
        return [text.replace(SPECIAL_TOKENS[special_tokens.unk], REPLACEMENT) for text in texts]

    def token_text(self, token: int) -> str:
        """Token id -> its text for display, without the leading space."""
        name = str(self.engine.id_to_token(token))
        if len(name) > 1 and name.endswith(" "):  # a special token
            return name.strip()
        if self._bytes:  # its name encodes each byte as a character
            name = self.decode([[token]])[0]
        return name.removeprefix(" ") or name

    def token_texts(self) -> list[str]:
        """Return the text of each token id, without the leading space; "" for special tokens."""
        names = (str(self.engine.id_to_token(token)) for token in range(self.vocab_size))
        return ["" if len(name) > 1 and name.endswith(" ") else self.token_text(i) for i, name in enumerate(names)]

    @cached_property
    def spelling_tokens(self) -> frozenset[int]:
        """Tokens of one character or byte of a subword tokenizer; empty if tokens are words or characters."""
        if not isinstance(self.engine.model, models.BPE | models.Unigram):
            return frozenset()
        names = self.engine.get_vocab().items()
        return frozenset(token for name, token in names if len(name) == 1 or (len(name) == 2 and name[0] in " Ġ"))

    def encode_with_offsets(self, text: str) -> list[TokenSpan]:
        """Raw text, composed or not -> its tokens with offsets into the raw text."""
        _check_surrogates([text])
        encoding = self.engine.encode(nfc(text), add_special_tokens=False)
        raw_spans = nfc_spans(text)
        pieces: list[TokenSpan] = []
        for token, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
            prefix = not pieces and self.adds_prefix and self.engine.id_to_token(token) == " "
            spans = raw_spans[start:start] if prefix else raw_spans[start:stop]
            first, last = (spans[0][0], spans[-1][1]) if spans else (0, 0)
            shown_from = _without_space(text, first, last)
            unknown = (
                text[shown_from:last] if token == SpecialTokens.unk else ""
            )  # the vocabulary lacks these characters
            pieces.append(TokenSpan(token, unknown or self.token_text(token), shown_from, last))
        return pieces

    def decode_with_offsets(self, row: Sequence[int]) -> list[TokenSpan]:
        """Token ids without special tokens -> the tokens with offsets into the decoded text."""
        stops = [len(text) for text in self.decode([row[: i + 1] for i in range(len(row))])]
        text = self.decode([row])[0]
        pieces: list[TokenSpan] = []
        for token, first, last in zip(row, [0, *stops], stops, strict=False):
            pieces.append(TokenSpan(token, self.token_text(token), _without_space(text, first, last), last))
        return pieces

    def save(self, path: Path) -> None:
        """Write the tokenizer as one JSON file."""
        write_text(path, self.engine.to_str(pretty=True))


class TokenizerPair(NamedTuple):
    """Tokenizers of source and target; the same object twice if they share a vocabulary."""

    source: Tokenizer
    target: Tokenizer

    def for_table(self, table: str) -> Tokenizer:
        """Return the tokenizer of an embedding table by its name: the source one for encoder and source tables."""
        return self.source if table.startswith(("encoder.", "source.")) else self.target


def _without_space(text: str, first: int, last: int) -> int:
    """Return the start of a token at first … last without leading spaces; at least one character remains."""
    while last - first > 1 and text[first].isspace():
        first += 1
    return first


def _check_surrogates(texts: Sequence[str]) -> None:
    """Refuse lone surrogates, which cannot occur in text read from a file."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            code = f"U+{ord(text[error.start]):04X}"
            raise DataError(
                f"{text[:40]!r}: character {error.start + 1} is a lone surrogate ({code}); provide valid Unicode text"
            ) from None


def load(path: Path) -> Tokenizer:
    """Load a file written by `save`."""
    try:
        engine = read_engine(path)
        engine.encode(REPLACEMENT, add_special_tokens=False)  # some errors only occur at an unknown character
        tokenizer = Tokenizer(engine)
    except (CheckpointError, TrustError):
        raise
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"{path}: not a tokenizer file: {error}") from None
    if tuple(engine.id_to_token(i) for i in range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
        raise CheckpointError(
            f"{path}: tokens 0 to 3 are not {', '.join(m.strip() for m in SPECIAL_TOKENS)}; not created by regard"
        )
    engine.no_padding()  # an untrusted file may pad to any length
    engine.no_truncation()
    return tokenizer


def train(texts: Iterable[str], *, level: Level, size: int, lowercase: bool = False, minimum: int = 1) -> Tokenizer:
    """Texts (iterated twice) -> a tokenizer of at most `size` tokens, each occurring at least `minimum` times."""
    engine, pattern, trainer = _components(level, size, minimum)
    prefix = [] if level == "char" else [normalizers.Prepend(" ")]
    lower = [normalizers.Lowercase()] if lowercase else []
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), *lower, *prefix])
    engine.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    engine.decoder = decoders.Sequence([decoders.Fuse(), *strip])
    _check_size(texts, engine.normalizer, level=level, size=size)
    with panics_as_errors():
        engine.train_from_iterator(texts, trainer)
    # Special tokens stay in the vocabulary but are not matched in texts: "<end>" in a text is five characters.
    state = json.loads(engine.to_str()) | {"added_tokens": []}
    if level == "unigram":
        state["model"]["vocab"] = _with_stable_order(state["model"]["vocab"])
    return Tokenizer(parse_engine(json.dumps(state)))


def _with_stable_order(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return unigram pieces in a deterministic order.

    The library scores the characters that it adds at the end 0.0001 apart, in the order of a random hash. Here their
    scores are equal.
    """
    special, regular = pieces[: len(SPECIAL_TOKENS)], pieces[len(SPECIAL_TOKENS) :]
    lowest = min((score for _, score in regular), default=0.0)
    threshold = lowest + 0.0001 * sum(len(piece) == 1 for piece, _ in regular)
    tied = [(p, lowest if len(p) == 1 and score <= threshold else score) for p, score in regular]
    return [*special, *sorted(((p, round(score, 6)) for p, score in tied), key=lambda piece: (-piece[1], piece[0]))]


def _components(level: Level, size: int, minimum: int) -> tuple[tokenizers.Tokenizer, str, Any]:
    """Return the untrained tokenizer, the pattern of its pre-tokens, and its trainer."""
    unknown = SPECIAL_TOKENS[SpecialTokens.unk]
    options: dict[str, Any] = {"vocab_size": size, "special_tokens": list(SPECIAL_TOKENS), "show_progress": False}
    if level == "bpe":
        trainer: Any = trainers.BpeTrainer(min_frequency=minimum, **options)
        return tokenizers.Tokenizer(models.BPE(unk_token=unknown)), SUBWORD_PATTERN, trainer
    if level == "unigram":
        trainer = trainers.UnigramTrainer(unk_token=unknown, **options)
        return tokenizers.Tokenizer(models.Unigram()), SUBWORD_PATTERN, trainer
    trainer = trainers.WordLevelTrainer(min_frequency=minimum, **options)
    pattern = WORD_PATTERN if level == "word" else CHARACTER_PATTERN
    return tokenizers.Tokenizer(models.WordLevel(unk_token=unknown)), pattern, trainer


def _check_size(texts: Iterable[str], normalizer: Any, *, level: Level, size: int) -> None:
    """Refuse a vocabulary that is too small for the special tokens and every character."""
    raw: set[str] = set()
    for text in texts:
        raw.update(nfc(text))
    if not raw:
        raise DataError("there is no text to build a vocabulary from")
    alphabet = {normalized for character in raw for normalized in normalizer.normalize_str(character)}
    needed = len(SPECIAL_TOKENS) + (1 if level == "word" else len(alphabet))
    if size < needed:
        minimum = "one word" if level == "word" else f"the alphabet of {len(alphabet)} characters"
        raise ConfigError(
            f"vocab_size={size} is smaller than {minimum} and {len(SPECIAL_TOKENS)} special tokens; "
            f"set it to at least {needed}"
        )
