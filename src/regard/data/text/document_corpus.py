"""Encoded documents for classification: token ids by sentence, the sentences of each document, and its labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
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

EncodedSentence = tuple[list[int], Span]  # token ids, and the span in the raw text
CHUNK_DOCUMENTS = 2000  # documents per call of the tokenizer
MAX_LISTED_LABELS = 5  # labels that a warning names
POOL = 30  # batches of documents that are sorted by length together


class Limits(NamedTuple):
    """Limits on the part of a document that is used."""

    max_sentence_tokens: int  # a longer sentence is split
    max_sentences: int  # further sentences of a document are ignored
    max_tokens: int  # tokens per document


class TokenizedDocument(NamedTuple):
    """A document as token ids."""

    rows: list[list[int]]  # one row per sentence
    spans: list[Span]  # position of each row's sentence in the raw text; equal for the parts of a split sentence
    num_tokens: int  # tokens without limits


class LabelledBatch(NamedTuple):
    """Documents and their labels."""

    documents: SentenceBatch
    labels: Tensor  # (b) class ids, or (b v) of 0 and 1 for multi-label data


class EncodedDocuments(NamedTuple):
    """Encoded documents."""

    sentences: Ragged
    edges: NDArray[np.int64]  # document i has the sentences edges[i] … edges[i + 1] - 1
    labels: NDArray[np.int64]  # (n) or (n v)
    blank: int = 0  # number of empty documents that were removed
    shortened: int = 0  # number of documents that were truncated

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.edges) - 1

    def lengths(self) -> Lengths:
        """Return the number of tokens of each document."""
        ends = self.sentences.edges[self.edges]
        return np.diff(ends)

    def batch(self, examples: Indices) -> LabelledBatch:
        """Example indices -> the documents, padded to the longest sentence, and their labels."""
        counts = self.edges[examples + 1] - self.edges[examples]
        sentence_indices = np.concatenate(
            [np.arange(self.edges[i], self.edges[i + 1]) for i in examples.tolist()] or [np.arange(0)]
        )
        padded = self.sentences.padded(sentence_indices, prefix=(), suffix=())
        documents = SentenceBatch(padded.tokens, padded.lengths, torch.from_numpy(counts))
        return LabelledBatch(documents, torch.from_numpy(self.labels[examples]))


@dataclass(frozen=True)
class SentenceTexts:
    """Re-iterable sentences of documents as texts, for training a tokenizer."""

    documents: Examples[Document]
    splitter: Splitter

    def __iter__(self) -> Iterator[str]:
        for document in self.documents:
            for start, stop in self.splitter.split(document.text):
                yield document.text[start:stop]


def train_tokenizer(
    documents: Examples[Document], *, splitter: Splitter, level: str, size: int, lowercase: bool, minimum: int
) -> Tokenizer:
    """Documents -> a tokenizer trained on their sentences; `level` is a value of data.tokenizer."""
    sentences = SentenceTexts(documents, splitter)
    texts = example_splits.cache_in_memory(Examples(documents.where, sentences.__iter__, bytes=documents.bytes))
    options: dict[str, Any] = {"size": size, "lowercase": lowercase, "minimum": minimum}
    if level == "bytes":
        return byte_bpe.train(texts, **options)
    return tokenizers.train(texts, level=cast(Level, level), **options)


def label_names(documents: Iterable[Document]) -> list[str]:
    """Return the sorted labels of documents, numbers by value. A single label is an error."""
    names = sorted({label for document in documents for label in document.labels}, key=_sort_key)
    if len(names) < 2:
        problem = f"every document has the label {names[0]!r}" if names else "no document has a label"
        raise DataError(f"{problem}; classification needs at least two different labels")
    return names


def training_labels(splits: Mapping[str, Examples[Document]]) -> list[str]:
    """Return the labels of the training data, with those of held-out splits that were cut off it.

    A label that only another file has is an error: it is a typing mistake, or cannot be learned.
    """
    cut_off = [documents for documents in splits.values() if documents.is_held_out]
    names = label_names(chain(splits["train"], *cut_off))
    for split, documents in splits.items():
        for document in documents if split != "train" and not documents.is_held_out else ():
            label_ids(document, names)
    return names


def missing_label_warnings(counts: Mapping[int, int], names: Sequence[str]) -> list[str]:
    """Return a warning about the labels that no training document has: all their documents are held out."""
    missing = [repr(name) for index, name in enumerate(names) if not counts.get(index)]
    if not missing:
        return []
    more = f" and {len(missing) - MAX_LISTED_LABELS} more" if len(missing) > MAX_LISTED_LABELS else ""
    return [
        f"no training document has the label {', '.join(missing[:MAX_LISTED_LABELS])}{more}: all documents of it are "
        "held out, so it cannot be learned; give more documents of it, or name train, valid and test files"
    ]


def label_ids(document: Document, names: Sequence[str]) -> list[int]:
    """Return the label ids of a document; an unknown label is an error."""
    for label in document.labels:
        if label not in names:
            raise DataError(
                f"{document.origin}: label {label!r} is not in the training data; {did_you_mean(label, names)}"
            )
    return [names.index(label) for label in document.labels]


def tokenize_documents(
    texts: Sequence[str], tokenizer: Tokenizer, *, splitter: Splitter, limits: Limits
) -> list[TokenizedDocument]:
    """Raw texts -> their sentences as token ids, within the limits."""
    return [truncate(document, limits) for document in encode_sentences(texts, tokenizer, splitter=splitter)]


def encode_sentences(texts: Sequence[str], tokenizer: Tokenizer, *, splitter: Splitter) -> list[list[EncodedSentence]]:
    """Raw texts -> their sentences as token ids, without limits."""
    spans = [splitter.split(text) for text in texts]
    flat = [text[start:stop] for text, text_spans in zip(texts, spans, strict=True) for start, stop in text_spans]
    rows = iter(tokenizer.encode(flat))
    return [list(zip(islice(rows, len(text_spans)), text_spans, strict=True)) for text_spans in spans]


def truncate(sentences: Sequence[EncodedSentence], limits: Limits) -> TokenizedDocument:
    """Encoded sentences of a document -> the part within the limits; long sentences are split."""
    rows: list[list[int]] = []
    spans: list[Span] = []
    remaining = limits.max_tokens
    for row, span in sentences:
        for start in range(0, len(row), limits.max_sentence_tokens):
            if remaining > 0 and len(rows) < limits.max_sentences:
                part = row[start : start + min(limits.max_sentence_tokens, remaining)]
                rows.append(part)
                spans.append(span)
                remaining -= len(part)
    return TokenizedDocument(rows, spans, num_tokens=sum(len(row) for row, _ in sentences))


def collate_documents(cuts: Sequence[TokenizedDocument]) -> SentenceBatch:
    """Tokenized documents -> the model input."""
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
    """Labelled documents -> token ids in memory; empty documents are removed and counted."""
    rows: list[list[int]] = []
    counts, labels, blank, shortened = [0], list[list[int]](), 0, 0
    stream = iter(documents)
    while chunk := list(islice(stream, CHUNK_DOCUMENTS)):
        cuts = tokenize_documents([document.text for document in chunk], tokenizer, splitter=splitter, limits=limits)
        for document, cut in zip(chunk, cuts, strict=True):
            ids = label_ids(document, names)
            if not cut.rows:
                blank += 1
                continue
            shortened += sum(map(len, cut.rows)) < cut.num_tokens
            rows += cut.rows
            counts.append(len(cut.rows))
            labels.append(ids)
    label_array = _multi_hot(labels, len(names)) if multi_label else np.array([row[0] for row in labels], np.int64)
    return EncodedDocuments(pair_corpus.to_ragged(rows), np.cumsum(counts), label_array, blank, shortened)


def epoch_batches(lengths: Lengths, *, batch_size: int, budget: int, seed: int, epoch: int) -> list[Indices]:
    """Document lengths -> the epoch's batches of `batch_size` documents, determined by seed and epoch.

    Documents are shuffled, and pools of several thousand are sorted by length. This keeps padding low, while batches
    still differ between epochs. A batch over `budget` padded tokens gets fewer documents.
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
    """Return how often each label id occurs in encoded documents."""
    if labels.ndim == 1:
        return Counter(labels.tolist())
    return Counter({label: int(count) for label, count in enumerate(labels.sum(axis=0)) if count})


def _sort_key(name: str) -> tuple[int, float, str]:
    is_number = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", name) is not None
    return (0, float(name), name) if is_number else (1, 0.0, name)


def _multi_hot(labels: Sequence[Sequence[int]], num_labels: int) -> NDArray[np.int64]:
    table = np.zeros((len(labels), num_labels), dtype=np.int64)
    for row, ids in zip(table, labels, strict=True):
        row[list(ids)] = 1
    return table
