"""Plain text as the data of a task: its tokenizer, and its splits as token streams that are read on first use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.core.errors import CheckpointError, DataError, did_you_mean, pluralize
from regard.core.files import cache_folder, write_text
from regard.data.text import byte_bpe, plain_text, token_stream
from regard.data.text import tokenizer as tokenizers
from regard.data.text.plain_text import Documents, PlainTextSource
from regard.data.text.token_stream import TokenStream
from regard.data.text.tokenizer import Tokenizer
from regard.tasks._shared import data_summary

Level = Literal["char", "word", "bpe", "unigram", "bytes"]
MIN_EXAMPLE_WORDS = 3
NUM_SUMMARY_TOKENS = 40  # tokens of the training text in the data summary
TOKENIZER, EXAMPLES = "tokenizer.json", "examples.json"
MAX_SAMPLE_CHARACTERS = 2**26  # of training text from which a vocabulary is built


class Corpus:
    """The splits of a text, encoded by a tokenizer."""

    def __init__(
        self, data_source: PlainTextSource, tokenizer: Tokenizer, *, max_memory_mb: int, test_only: bool = False
    ) -> None:
        self.data_source, self.tokenizer = data_source, tokenizer
        self.max_memory_mb, self.test_only = max_memory_mb, test_only
        self._splits: dict[str, Documents] = {}
        self._streams: dict[str, TokenStream] = {}

    def as_test_data(self) -> Corpus:
        """Return the same corpus with all text used for testing."""
        return Corpus(self.data_source, self.tokenizer, max_memory_mb=self.max_memory_mb, test_only=True)

    def documents(self, split: str) -> Documents:
        """Return the texts of a split."""
        self._splits = self._splits or plain_text.open_text(self.data_source, test_only=self.test_only)
        if split not in self._splits:
            raise DataError(f"the text has no split {split!r}; {did_you_mean(split, self._splits)}")
        return self._splits[split]

    def stream(self, split: str) -> TokenStream:
        """Return the tokens of a split; more than `max_memory_mb` of text is memory-mapped from the cache folder."""
        if split not in self._streams:
            documents = self.documents(split)
            if documents.bytes > self.max_memory_mb * 2**20:
                stream = token_stream.load_or_build(documents, self.tokenizer, folder=cache_folder() / "corpora")
            else:
                stream = token_stream.encode_in_memory(documents, self.tokenizer)
            if not len(stream.tokens):
                raise DataError(f"{documents.where}: there is no text in the split {split!r}")
            self._streams[split] = stream
        return self._streams[split]

    def data_summary(self, context: int) -> list[str]:
        """Return the number of tokens of each split, the vocabulary size and the start of the training text."""
        train = self.training_stream(context)
        names = sorted(self._splits, key=lambda name: name != "train")
        counts = {name: len(self.stream(name).tokens) for name in names}
        characters = f"{train.num_characters:,} characters of training text"
        vocabulary = data_summary.format_vocabulary(self.tokenizer.vocab_size)
        start = self.tokenizer.decode([train.tokens[:NUM_SUMMARY_TOKENS].tolist()])[0]
        return [
            data_summary.format_counts("tokens", counts, characters, vocabulary),
            data_summary.format_first_example("words", f"{start} …"),
            *dict.fromkeys(remark for documents in self._splits.values() for remark in documents.remarks),
        ]

    def fingerprint(self) -> dict[str, str]:
        """Return a checksum of each split."""
        self.documents("train")
        return {split: documents.checksum() for split, documents in self._splits.items()}

    def token_texts(self) -> list[str]:
        """Return the text of each token id, without its leading space; "" for special tokens."""
        return self.tokenizer.token_texts()

    def training_stream(self, context: int) -> TokenStream:
        """Return the training text, which must be at least as long as the context."""
        stream = self.stream("train")
        if len(stream.tokens) < context:
            where = self.documents("train").where
            raise DataError(
                f"{where}: the training text has {pluralize(len(stream.tokens), 'token')}, fewer than "
                f"data.context={context}; give more text or a smaller context"
            )
        return stream


def build_tokenizer(
    data_source: PlainTextSource, level: Level, vocab_size: int, *, lowercase: bool, min_frequency: int
) -> Tokenizer:
    """Train a tokenizer on the training text, or on the first MAX_SAMPLE_CHARACTERS of it."""
    texts = TextPrefix(plain_text.open_text(data_source)["train"], MAX_SAMPLE_CHARACTERS)
    if level == "bytes":
        return byte_bpe.train(texts, size=vocab_size, lowercase=lowercase, minimum=min_frequency)
    return tokenizers.train(texts, level=level, size=vocab_size, lowercase=lowercase, minimum=min_frequency)


@dataclass(frozen=True)
class TextPrefix:
    """The first documents of a text, up to `max_characters`; it can be iterated several times."""

    documents: Documents
    max_characters: int

    def __iter__(self) -> Iterator[str]:
        remaining = self.max_characters
        for text in self.documents:
            if remaining <= 0:
                return
            yield from token_stream.split_text(text[:remaining], token_stream.PIECE_CHARS, keep_space=True)
            remaining -= len(text)


def example_prompts(documents: Iterable[str], *, count: int = 2, num_words: int = 8) -> list[str]:
    """Return the first `num_words` words of some lines as examples; if no line is that long, the longest lines."""
    prompts: list[str] = []
    short_lines: list[list[str]] = []
    for text in documents:
        lines = [line.split() for line in text.splitlines()]
        long_lines = [line for line in lines if len(line) >= num_words]
        short_lines += [line for line in lines if MIN_EXAMPLE_WORDS <= len(line) < num_words]
        short_lines = sorted(short_lines, key=len)[-count:]
        evenly = long_lines[:: max(1, len(long_lines) // count)]
        prompts += [" ".join(line[:num_words]) for line in evenly][: count - len(prompts)]
        if len(prompts) == count:
            break
    return (prompts + [" ".join(line) for line in reversed(short_lines)])[:count]


def save(folder: Path, tokenizer: Tokenizer, examples: Iterable[str]) -> None:
    """Write tokenizer.json and examples.json, from which the task is loaded."""
    tokenizer.save(folder / TOKENIZER)
    write_text(folder / EXAMPLES, json.dumps(list(examples), indent=1, ensure_ascii=False) + "\n")


def read_examples(folder: Path, name: str = EXAMPLES) -> list[str]:
    """Return the examples (or similar texts) of a run; empty if the run has no such file."""
    path = folder / name
    if not path.exists():
        return []
    try:
        return [str(text) for text in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: damaged ({error}); delete it, the run works without it") from None
