"""The text of a task on plain text: its tokenizer and its splits as streams of tokens, read when first asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.core.errors import CheckpointError, DataError, did_you_mean
from regard.core.files import cache_folder, write_text
from regard.data.text import byte_bpe, plain_text, token_stream
from regard.data.text import tokenizer as tokenizers
from regard.data.text.plain_text import Documents, PlainTextSource
from regard.data.text.token_stream import TokenStream
from regard.data.text.tokenizer import Tokenizer
from regard.tasks._shared import data_summary

Level = Literal["char", "word", "bpe", "unigram", "bytes"]
MIN_EXAMPLE_WORDS = 3  # words of an example
TOKENIZER, EXAMPLES = "tokenizer.json", "examples.json"
MAX_SAMPLE_CHARACTERS = 2**26  # characters of text that a vocabulary is made from, at most


class Corpus:
    """The splits of a text, as a tokenizer reads them."""

    def __init__(
        self, data_source: PlainTextSource, tokenizer: Tokenizer, *, max_memory_mb: int, test_only: bool = False
    ) -> None:
        self.data_source, self.tokenizer, self.max_memory_mb, self.test_only = (
            data_source,
            tokenizer,
            max_memory_mb,
            test_only,
        )
        self._splits: dict[str, Documents] = {}
        self._streams: dict[str, TokenStream] = {}

    def as_test_data(self) -> Corpus:
        """The same for text that is only tested on."""
        return Corpus(self.data_source, self.tokenizer, max_memory_mb=self.max_memory_mb, test_only=True)

    def documents(self, split: str) -> Documents:
        """The texts of a split."""
        self._splits = self._splits or plain_text.open_text(self.data_source, test_only=self.test_only)
        if split not in self._splits:
            raise DataError(f"the text has no split {split!r}; {did_you_mean(split, self._splits)}")
        return self._splits[split]

    def stream(self, split: str) -> TokenStream:
        """The tokens of a split; those of more than `memory` megabytes of text are mapped from files in the cache."""
        if split not in self._streams:
            documents = self.documents(split)
            if documents.bytes > self.max_memory_mb * 2**20:
                found = token_stream.load_or_build(documents, self.tokenizer, folder=cache_folder() / "corpora")
            else:
                found = token_stream.encode_in_memory(documents, self.tokenizer)
            if not len(found.tokens):
                raise DataError(f"{documents.where}: there is no text in the split {split!r}")
            self._streams[split] = found
        return self._streams[split]

    def data_summary(self, context: int) -> list[str]:
        """How much text there is in each split, the vocabulary, and how the training text begins."""
        text = self.training_stream(context)
        splits = {split: self.stream(split) for split in sorted(self._splits, key=lambda split: split != "train")}
        counts = {split: len(found.tokens) for split, found in splits.items()}
        known = (
            f"{text.num_characters:,} characters of training text",
            data_summary.format_vocabulary(self.tokenizer.vocab_size),
        )
        begin = self.tokenizer.decode([text.tokens[:40].tolist()])[0]
        return [
            data_summary.format_counts("tokens", counts, *known),
            data_summary.format_first_example("words", f"{begin} …"),
        ]

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        self.documents("train")
        return {split: documents.checksum() for split, documents in self._splits.items()}

    def token_texts(self) -> list[str]:
        """The text of each token number, without the space before it; none for marks."""
        return self.tokenizer.token_texts()

    def training_stream(self, context: int) -> TokenStream:
        """The training text, which must be at least as long as the context."""
        found = self.stream("train")
        if len(found.tokens) < context:
            where = self.documents("train").where
            raise DataError(
                f"{where}: the training text has {len(found.tokens)} tokens, fewer than data.context={context}; "
                "give more text or a smaller context"
            )
        return found


def build_tokenizer(
    data_source: PlainTextSource, level: Level, vocab_size: int, *, lowercase: bool, min_frequency: int
) -> Tokenizer:
    """A tokenizer made from the training text; of a very long text, from its beginning."""
    texts = TextPrefix(plain_text.open_text(data_source)["train"], MAX_SAMPLE_CHARACTERS)
    if level == "bytes":
        return byte_bpe.train(texts, size=vocab_size, lowercase=lowercase, minimum=min_frequency)
    return tokenizers.train(texts, level=level, size=vocab_size, lowercase=lowercase, minimum=min_frequency)


@dataclass(frozen=True)
class TextPrefix:
    """The first documents of a text, up to so many characters; they can be gone through again and again."""

    documents: Documents
    max_characters: int

    def __iter__(self) -> Iterator[str]:
        left = self.max_characters
        for text in self.documents:
            if left <= 0:
                return
            yield from token_stream.split_text(text[:left], token_stream.PIECE_CHARS, keep_space=True)
            left -= len(text)


def example_prompts(documents: Iterable[str], *, count: int = 2, num_words: int = 8) -> list[str]:
    """The first words of some texts, as examples to try; where no line is that long, the longest there are."""
    found: list[str] = []
    shorter: list[list[str]] = []
    for text in documents:
        lines = [line.split() for line in text.splitlines()]
        long = [line for line in lines if len(line) >= num_words]
        shorter = sorted([*shorter, *(line for line in lines if MIN_EXAMPLE_WORDS <= len(line) < num_words)], key=len)[
            -count:
        ]
        found += [" ".join(line[:num_words]) for line in long[:: max(1, len(long) // count)]][: count - len(found)]
        if len(found) == count:
            break
    return (found + [" ".join(line) for line in reversed(shorter)])[:count]


def save(folder: Path, tokenizer: Tokenizer, examples: Iterable[str]) -> None:
    """tokenizer.json and examples.json, from which the task is made again."""
    tokenizer.save(folder / TOKENIZER)
    write_text(folder / EXAMPLES, json.dumps(list(examples), indent=1, ensure_ascii=False) + "\n")


def read_examples(folder: Path, name: str = EXAMPLES) -> list[str]:
    """The examples of a run, or other such texts; none where it was saved by another task."""
    path = folder / name
    if not path.exists():
        return []
    try:
        return [str(text) for text in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as wrong:
        raise CheckpointError(f"{path}: damaged ({wrong}); delete it, the run works without") from None
