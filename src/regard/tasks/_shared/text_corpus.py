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
from regard.data.text.token_stream import Stream
from regard.data.text.tokenizer import Tokenizer
from regard.tasks._shared import data_summary

Level = Literal["char", "word", "bpe", "unigram", "bytes"]
FEWEST = 3  # words of an example
TOKENIZER, EXAMPLES = "tokenizer.json", "examples.json"
SAMPLE = 2**26  # characters of text that a vocabulary is made from, at most


class Corpus:
    """The splits of a text, as a tokenizer reads them."""

    def __init__(
        self, origin: PlainTextSource, tokenizer: Tokenizer, *, memory: int, only_tested: bool = False
    ) -> None:
        self.origin, self.tokenizer, self.memory, self.only_tested = origin, tokenizer, memory, only_tested
        self._splits: dict[str, Documents] = {}
        self._streams: dict[str, Stream] = {}

    def held_out(self) -> Corpus:
        """The same for text that is only tested on."""
        return Corpus(self.origin, self.tokenizer, memory=self.memory, only_tested=True)

    def documents(self, split: str) -> Documents:
        """The texts of a split."""
        self._splits = self._splits or plain_text.open_text(self.origin, only_tested=self.only_tested)
        if split not in self._splits:
            raise DataError(f"the text has no split {split!r}; {did_you_mean(split, self._splits)}")
        return self._splits[split]

    def stream(self, split: str) -> Stream:
        """The tokens of a split; those of more than `memory` megabytes of text are mapped from files in the cache."""
        if split not in self._streams:
            documents = self.documents(split)
            if documents.bytes > self.memory * 2**20:
                found = token_stream.mapped(documents, self.tokenizer, folder=cache_folder() / "corpora")
            else:
                found = token_stream.in_memory(documents, self.tokenizer)
            if not len(found.tokens):
                raise DataError(f"{documents.where}: there is no text in the split {split!r}")
            self._streams[split] = found
        return self._streams[split]

    def overview(self, context: int) -> list[str]:
        """How much text there is in each split, the vocabulary, and how the training text begins."""
        text = self.training(context)
        splits = {split: self.stream(split) for split in sorted(self._splits, key=lambda split: split != "train")}
        counts = {split: len(found.tokens) for split, found in splits.items()}
        known = (f"{text.characters:,} characters of training text", data_summary.vocabulary(self.tokenizer.size))
        begin = self.tokenizer.decode([text.tokens[:40].tolist()])[0]
        return [data_summary.counted("tokens", counts, *known), data_summary.first("words", f"{begin} …")]

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        self.documents("train")
        return {split: documents.checksum() for split, documents in self._splits.items()}

    def words(self) -> list[str]:
        """The text of each token number, without the space before it; none for marks."""
        return self.tokenizer.words()

    def training(self, context: int) -> Stream:
        """The training text, which must be at least as long as the context."""
        found = self.stream("train")
        if len(found.tokens) < context:
            where = self.documents("train").where
            raise DataError(
                f"{where}: the training text has {len(found.tokens)} tokens, fewer than data.context={context}; "
                "give more text or a smaller context"
            )
        return found


def build_tokenizer(origin: PlainTextSource, level: Level, size: int, *, lowercase: bool, minimum: int) -> Tokenizer:
    """A tokenizer made from the training text; of a very long text, from its beginning."""
    texts = Beginning(plain_text.open_text(origin)["train"], SAMPLE)
    if level == "bytes":
        return byte_bpe.train(texts, size=size, lowercase=lowercase, minimum=minimum)
    return tokenizers.train(texts, level=level, size=size, lowercase=lowercase, minimum=minimum)


@dataclass(frozen=True)
class Beginning:
    """The first documents of a text, up to so many characters; they can be gone through again and again."""

    documents: Documents
    characters: int

    def __iter__(self) -> Iterator[str]:
        left = self.characters
        for text in self.documents:
            if left <= 0:
                return
            yield from token_stream.cut(text[:left], token_stream.PIECE, keep_space=True)
            left -= len(text)


def beginnings(documents: Iterable[str], *, count: int = 2, words: int = 8) -> list[str]:
    """The first words of some texts, as examples to try; where no line is that long, the longest there are."""
    found: list[str] = []
    shorter: list[list[str]] = []
    for text in documents:
        lines = [line.split() for line in text.splitlines()]
        long = [line for line in lines if len(line) >= words]
        shorter = sorted([*shorter, *(line for line in lines if FEWEST <= len(line) < words)], key=len)[-count:]
        found += [" ".join(line[:words]) for line in long[:: max(1, len(long) // count)]][: count - len(found)]
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
