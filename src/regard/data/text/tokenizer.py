"""Text to token numbers and back, by HF `tokenizers`: subwords (BPE, unigram), words or characters.

A token carries the space before it (" dog"), so joining tokens gives the text back, however many spaces it has. A space
set before the text lets its first word share the token of that word elsewhere; decoding takes it away again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import write_text
from regard.data.text.unicode import nfc, nfc_spans

Level = Literal["bpe", "unigram", "word", "char"]

# Cuts of the text never end in a space unless they are one space alone, so no text can spell the name of a mark.
SPECIAL_TOKENS = ("<pad> ", "<unknown> ", "<start> ", "<end> ")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what an unknown token is decoded to
# The time to make subwords grows with the square of a word's length, so an unbroken line is cut every so many letters.
MAX_WORD_CHARS = 100
_SOME = f"{{1,{MAX_WORD_CHARS}}}"
SUBWORD_PATTERN = rf" ?[\p{{L}}\p{{M}}]{_SOME}| ?\p{{N}}{_SOME}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]{_SOME}|\s"
WORD_PATTERN = rf" ?[\p{{L}}\p{{M}}\p{{N}}]{_SOME}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]|\s"
CHARACTER_PATTERN = r"[\s\S]"


class TokenSpan(NamedTuple):
    """A token and where it stands in the raw text, its leading space left out."""

    token: int
    text: str
    start: int
    stop: int


class Tokenizer:
    """Text <-> token numbers. Numbers 0 … 3 are marks, which no text is ever encoded to (but unknown)."""

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        self.engine = engine
        self._prefixed = str(engine.normalizer.normalize_str("a")).startswith(" ")
        self._bytes = isinstance(engine.decoder, decoders.ByteLevel)

    @property
    def vocab_size(self) -> int:
        """The number of tokens, marks included."""
        return int(self.engine.get_vocab_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts -> token numbers, without marks."""
        try:
            encodings = self.engine.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:
            _check_whole(texts)
            raise
        return [encoding.ids for encoding in encodings]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Token numbers -> texts; marks vanish, an unknown token becomes U+FFFD."""
        marks = SpecialTokens()
        silent = {marks.pad, marks.bos, marks.eos}
        plain = [[token for token in row if token not in silent] for row in rows]
        texts: list[str] = self.engine.decode_batch(plain, skip_special_tokens=False)
        return [text.replace(SPECIAL_TOKENS[marks.unk], REPLACEMENT) for text in texts]

    def token_text(self, token: int) -> str:
        """A token number -> how it is shown, its leading space left out."""
        name = str(self.engine.id_to_token(token))
        if len(name) > 1 and name.endswith(" "):  # a mark
            return name.strip()
        if self._bytes:  # whose own names are letters that stand for bytes
            name = self.decode([[token]])[0]
        return name.removeprefix(" ") or name

    def token_texts(self) -> list[str]:
        """The text of each token number, its leading space left out; "" for marks."""
        names = (str(self.engine.id_to_token(token)) for token in range(self.vocab_size))
        return ["" if len(name) > 1 and name.endswith(" ") else self.token_text(i) for i, name in enumerate(names)]

    def encode_with_offsets(self, text: str) -> list[TokenSpan]:
        """A raw text -> its tokens with offsets into that raw text, composed or not."""
        _check_whole([text])
        encoding = self.engine.encode(nfc(text), add_special_tokens=False)
        places = nfc_spans(text)
        pieces: list[TokenSpan] = []
        for token, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
            prefix = not pieces and self._prefixed and self.engine.id_to_token(token) == " "
            here = places[start:start] if prefix else places[start:stop]
            first, last = (here[0][0], here[-1][1]) if here else (0, 0)
            pieces.append(TokenSpan(token, self.token_text(token), _without_space(text, first, last), last))
        return pieces

    def decode_with_offsets(self, row: Sequence[int]) -> list[TokenSpan]:
        """Token numbers, without marks -> the same with offsets into the text they decode to."""
        stops = [len(text) for text in self.decode([row[: i + 1] for i in range(len(row))])]
        text = self.decode([row])[0]
        pieces: list[TokenSpan] = []
        for token, first, last in zip(row, [0, *stops], stops, strict=False):
            pieces.append(TokenSpan(token, self.token_text(token), _without_space(text, first, last), last))
        return pieces

    def save(self, path: Path) -> None:
        """Write the whole of it as one JSON file."""
        write_text(path, self.engine.to_str(pretty=True))


class TokenizerPair(NamedTuple):
    """The tokenizers of both sides of a pair; the same one twice if they share a vocabulary."""

    source: Tokenizer
    target: Tokenizer

    def for_table(self, table: str) -> Tokenizer:
        """The one whose tokens the table of embeddings with this name has: an encoder's, or that of the source."""
        return self.source if table.startswith(("encoder.", "source.")) else self.target


def _without_space(text: str, first: int, last: int) -> int:
    """Where a token that stands at first … last begins, its leading spaces left out; one character is always kept."""
    while last - first > 1 and text[first].isspace():
        first += 1
    return first


def _check_whole(texts: Sequence[str]) -> None:
    """Refuse halves of characters (surrogates), which no text has that was read from a file."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as wrong:
            code = f"U+{ord(text[wrong.start]):04X}"
            raise DataError(
                f"{text[:40]!r}: letter {wrong.start + 1} is half of a character ({code}); give whole Unicode text"
            ) from None


def load(path: Path) -> Tokenizer:
    """A file written by `save` -> the same tokenizer, number for number."""
    try:
        engine = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        engine.encode(REPLACEMENT, add_special_tokens=False)  # some mistakes are noticed at an unknown letter only
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such tokenizer file; is the run folder complete?") from None
    except Exception as wrong:  # the library raises bare Exception for whatever is wrong with the JSON
        raise CheckpointError(f"{path}: not a tokenizer file: {wrong}") from None
    if tuple(engine.id_to_token(i) for i in range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
        raise CheckpointError(
            f"{path}: tokens 0 to 3 are not {', '.join(m.strip() for m in SPECIAL_TOKENS)}; not made by regard"
        )
    engine.no_padding()  # of a stranger's tokenizer: to any length
    engine.no_truncation()
    return Tokenizer(engine)


def train(texts: Iterable[str], *, level: Level, size: int, lowercase: bool = False, minimum: int = 1) -> Tokenizer:
    """Texts (gone through twice) -> a tokenizer of at most `size` tokens, each seen at least `minimum` times."""
    engine, cuts, trainer = _parts(level, size, minimum)
    prefix = [] if level == "char" else [normalizers.Prepend(" ")]
    lower = [normalizers.Lowercase()] if lowercase else []
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), *lower, *prefix])
    engine.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(cuts), "isolated")
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    engine.decoder = decoders.Sequence([decoders.Fuse(), *strip])
    _check_size(texts, engine.normalizer, level=level, size=size)
    engine.train_from_iterator(texts, trainer)
    # Marks stay in the vocabulary but are not searched for in texts: "<end>" in a text is five characters.
    state = json.loads(engine.to_str()) | {"added_tokens": []}
    if level == "unigram":
        state["model"]["vocab"] = _settled(state["model"]["vocab"])
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(state)))


def _settled(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Unigram pieces in an order that is the same every time.

    The library scores the characters it adds at the end 0.0001 apart, in the order of a random hash; here they tie.
    """
    marks, others = pieces[: len(SPECIAL_TOKENS)], pieces[len(SPECIAL_TOKENS) :]
    least = min((score for _, score in others), default=0.0)
    near = least + 0.0001 * sum(len(piece) == 1 for piece, _ in others)
    tied = [(p, least if len(p) == 1 and score <= near else score) for p, score in others]
    return [*marks, *sorted(((p, round(score, 6)) for p, score in tied), key=lambda piece: (-piece[1], piece[0]))]


def _parts(level: Level, size: int, minimum: int) -> tuple[tokenizers.Tokenizer, str, Any]:
    marks, unknown = list(SPECIAL_TOKENS), SPECIAL_TOKENS[SpecialTokens.unk]
    quiet: dict[str, Any] = {"vocab_size": size, "special_tokens": marks, "show_progress": False}
    if level == "bpe":
        trainer: Any = trainers.BpeTrainer(min_frequency=minimum, **quiet)
        return tokenizers.Tokenizer(models.BPE(unk_token=unknown)), SUBWORD_PATTERN, trainer
    if level == "unigram":
        trainer = trainers.UnigramTrainer(unk_token=unknown, **quiet)
        return tokenizers.Tokenizer(models.Unigram()), SUBWORD_PATTERN, trainer
    trainer = trainers.WordLevelTrainer(min_frequency=minimum, **quiet)
    cuts = WORD_PATTERN if level == "word" else CHARACTER_PATTERN
    return tokenizers.Tokenizer(models.WordLevel(unk_token=unknown)), cuts, trainer


def _check_size(texts: Iterable[str], normalizer: Any, *, level: Level, size: int) -> None:
    """Refuse a vocabulary that cannot hold every character beside the marks."""
    raw: set[str] = set()
    for text in texts:
        raw.update(nfc(text))
    if not raw:
        raise DataError("there is no text to make a vocabulary from")
    alphabet = {letter for character in raw for letter in normalizer.normalize_str(character)}
    needed = len(SPECIAL_TOKENS) + (1 if level == "word" else len(alphabet))
    if size < needed:
        thing = "one word" if level == "word" else f"the alphabet of {len(alphabet)} characters"
        raise ConfigError(
            f"vocabulary={size} is smaller than {thing} and {len(SPECIAL_TOKENS)} marks; set it to at least {needed}"
        )
