"""Documents as token numbers: sentences end to end, which of them make a document, and the labels of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import DataError, did_you_mean
from regard.core.protocols import Indices
from regard.core.seed import combine_seeds
from regard.data import batching
from regard.data import examples as example_splits
from regard.data.batching import Lengths
from regard.data.examples import Examples
from regard.data.text import byte_bpe, pair_corpus
from regard.data.text import tokenizer as tokenizers
from regard.data.text.document_files import Document
from regard.data.text.pair_corpus import Ragged
from regard.data.text.sentence_splitter import Span, Splitter
from regard.data.text.tokenizer import Level, Tokenizer
from regard.layers.document_batch import SentenceBatch

CHUNK_DOCUMENTS = 2000  # documents that are encoded at once
POOL = 30  # batches' worth of documents that are sorted by length before they are cut into batches


class Limits(NamedTuple):
    """How much of a document is read."""

    max_sentence_tokens: int  # tokens of a sentence; a longer one is cut into several
    max_sentences: int  # sentences of a document; further ones are left out
    max_tokens: int  # tokens of a document


class TokenizedDocument(NamedTuple):
    """A document as token numbers."""

    rows: list[list[int]]  # a row a sentence
    spans: list[
        Span
    ]  # where each row's sentence stands in the raw text; a sentence cut into several stands there twice
    num_tokens: int  # tokens it would have without limits


class LabelledBatch(NamedTuple):
    """Documents and their labels."""

    documents: SentenceBatch
    labels: Tensor  # (b) numbers, or (b v) of 0 and 1 where a document may have several


class EncodedDocuments(NamedTuple):
    """Encoded documents."""

    sentences: Ragged
    edges: NDArray[np.int64]  # document i has the sentences edges[i] … edges[i + 1] - 1
    labels: NDArray[np.int64]  # (n) or (n v)
    blank: int = 0  # documents that were left out because they are empty
    shortened: int = 0  # documents of which only a part is read

    @property
    def size(self) -> int:
        """How many documents there are."""
        return len(self.edges) - 1

    def lengths(self) -> Lengths:
        """The tokens of each document."""
        ends = self.sentences.edges[self.edges]
        return np.diff(ends)

    def batch(self, examples: Indices) -> LabelledBatch:
        """Example numbers -> the documents, sentences padded to the longest, and their labels."""
        counts = self.edges[examples + 1] - self.edges[examples]
        numbers = np.concatenate(
            [np.arange(self.edges[i], self.edges[i + 1]) for i in examples.tolist()] or [np.arange(0)]
        )
        padded = self.sentences.padded(numbers, prefix=(), suffix=())
        grouped = SentenceBatch(padded.tokens, padded.lengths, torch.from_numpy(counts))
        return LabelledBatch(grouped, torch.from_numpy(self.labels[examples]))


@dataclass(frozen=True)
class SentenceTexts:
    """The sentences of documents as texts, to be gone through again and again: what a vocabulary is made from."""

    documents: Examples[Document]
    splitter: Splitter

    def __iter__(self) -> Iterator[str]:
        for document in self.documents:
            for start, stop in self.splitter.split(document.text):
                yield document.text[start:stop]


def train_tokenizer(
    documents: Examples[Document], *, splitter: Splitter, level: str, size: int, lowercase: bool, minimum: int
) -> Tokenizer:
    """Documents -> a tokenizer made from their sentences; `level` is one of data.max_batch_tokens, or bytes."""
    read = SentenceTexts(documents, splitter)
    texts = example_splits.cache_in_memory(Examples(documents.where, read.__iter__, bytes=documents.bytes))
    choices: dict[str, Any] = {"size": size, "lowercase": lowercase, "minimum": minimum}
    if level == "bytes":
        return byte_bpe.train(texts, **choices)
    return tokenizers.train(texts, level=cast(Level, level), **choices)


def label_names(documents: Iterable[Document]) -> list[str]:
    """The labels that documents have, in order; numbers by their size. One label alone is an error."""
    names = sorted({label for document in documents for label in document.labels}, key=_natural)
    if len(names) < 2:
        there = f"every document has the label {names[0]!r}" if names else "no document has a label"
        raise DataError(f"{there}; there is nothing to tell apart")
    return names


def training_labels(splits: Mapping[str, Iterable[Document]]) -> list[str]:
    """The labels of the training documents; one that only other splits have is said before anything is made."""
    names = label_names(splits["train"])
    for split, documents in splits.items():
        for document in documents if split != "train" else ():
            label_ids(document, names)
    return names


def _natural(name: str) -> tuple[int, float, str]:
    number = name.removeprefix("-").isdigit()
    return (0, float(name), name) if number else (1, 0.0, name)


def label_ids(document: Document, names: Sequence[str]) -> list[int]:
    """The labels of a document as numbers; a label that is not among the names is an error."""
    for label in document.labels:
        if label not in names:
            raise DataError(
                f"{document.place}: label {label!r} is not in the training data; {did_you_mean(label, names)}"
            )
    return [names.index(label) for label in document.labels]


def tokenize_documents(
    texts: Sequence[str], tokenizer: Tokenizer, *, splitter: Splitter, limits: Limits
) -> list[TokenizedDocument]:
    """Raw texts -> their sentences as token numbers, within the limits."""
    spans = [splitter.split(text) for text in texts]
    flat = [text[start:stop] for text, places in zip(texts, spans, strict=True) for start, stop in places]
    rows = iter(tokenizer.encode(flat))
    return [_within([(next(rows), span) for span in places], limits) for places in spans]


def _within(sentences: list[tuple[list[int], Span]], limits: Limits) -> TokenizedDocument:
    rows: list[list[int]] = []
    spans: list[Span] = []
    left = limits.max_tokens
    for row, span in sentences:
        for start in range(0, len(row), limits.max_sentence_tokens):
            if left > 0 and len(rows) < limits.max_sentences:
                part = row[start : start + min(limits.max_sentence_tokens, left)]
                rows.append(part)
                spans.append(span)
                left -= len(part)
    return TokenizedDocument(rows, spans, num_tokens=sum(len(row) for row, _ in sentences))


def collate_documents(cuts: Sequence[TokenizedDocument]) -> SentenceBatch:
    """Documents -> what a model is given."""
    rows = [row for cut in cuts for row in cut.rows]
    padded = batching.pad(rows)
    return SentenceBatch(padded.tokens, padded.lengths, torch.tensor([len(cut.rows) for cut in cuts]))


def encode(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    names: Sequence[str],
    *,
    splitter: Splitter,
    limits: Limits,
    multi_label: bool,
) -> EncodedDocuments:
    """Documents with labels -> token numbers, held in memory; empty documents are left out and counted."""
    rows: list[list[int]] = []
    counts, labels, blank, shortened = [0], list[list[int]](), 0, 0
    stream = iter(documents)
    while chunk := list(islice(stream, CHUNK_DOCUMENTS)):
        cuts = tokenize_documents([document.text for document in chunk], tokenizer, splitter=splitter, limits=limits)
        for document, cut in zip(chunk, cuts, strict=True):
            numbers = label_ids(document, names)
            if not cut.rows:
                blank += 1
                continue
            shortened += sum(map(len, cut.rows)) < cut.num_tokens
            rows += cut.rows
            counts.append(len(cut.rows))
            labels.append(numbers)
    numbers_array = (
        _several(labels, len(names)) if multi_label else np.array([row[0] for row in labels], dtype=np.int64)
    )
    return EncodedDocuments(pair_corpus.to_ragged(rows), np.cumsum(counts), numbers_array, blank, shortened)


def _several(labels: Sequence[Sequence[int]], count: int) -> NDArray[np.int64]:
    table = np.zeros((len(labels), count), dtype=np.int64)
    for row, numbers in zip(table, labels, strict=True):
        row[list(numbers)] = 1
    return table


def epoch_batches(lengths: Lengths, *, batch_size: int, budget: int, seed: int, epoch: int) -> list[Indices]:
    """Lengths of documents -> the epoch's batches of `rows` documents of like length, the same for a seed and epoch.

    Documents are shuffled, and in pools of some thousands sorted by length, so that little is padded and batches are
    still different in every epoch. A batch of more than `budget` padded tokens is made of fewer documents.
    """
    random = np.random.default_rng(combine_seeds(seed, epoch))
    order = random.permutation(len(lengths))
    batches: list[Indices] = []
    for start in range(0, len(order), batch_size * POOL):
        pool = order[start : start + batch_size * POOL]
        batches += [
            pool[part] for part in batching.batches_by_length(lengths[pool], budget=budget, max_rows=batch_size)
        ]
    return [batches[i] for i in random.permutation(len(batches))]


def label_counts(labels: NDArray[np.int64]) -> Counter[int]:
    """How often each label stands in encoded documents."""
    if labels.ndim == 1:
        return Counter(labels.tolist())
    return Counter({number: int(count) for number, count in enumerate(labels.sum(axis=0)) if count})
