"""Inspection of a classified document: its sentences and words, and replays of the model without one of them.

The axes depend on the attention of the model: `words` of each sentence and `sentences`, all words of the `document`,
or its `text` between BOS and EOS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.attention.record import attention_modules
from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Parent, Truth
from regard.core.protocols import Readout
from regard.core.state_tree import map_tensors
from regard.data.builtin.reviews import Review
from regard.data.text import document_corpus
from regard.data.text.document_corpus import TokenizedDocument
from regard.data.text.sentence_splitter import Span
from regard.data.text.tokenizer import Tokenizer
from regard.layers.document_batch import SentenceBatch, add_bos_eos, concat_sentences
from regard.tasks._shared.tokens import vocabulary_sample

BATCH_DOCUMENTS = 64  # documents in a batch of ablations
MAX_SENTENCE_CHARACTERS = 60  # of a sentence on its axis
MAX_TITLE_CHARACTERS = 200  # of a document in the title of the page


class DocumentModel(Protocol):
    """A document classifier: a batch of documents -> features (b d), and a readout over labels."""

    @property
    def readout(self) -> Readout: ...

    def __call__(self, documents: SentenceBatch) -> Tensor: ...


class ClassifiedDocument(NamedTuple):
    """A document and its predicted labels."""

    text: str
    tokenized: TokenizedDocument
    outputs: Sequence[Output]  # best first
    label: int  # index of the best label
    seconds: float
    review: Review | None  # the evidence of the label, if known
    remarks: tuple[str, ...] = ()


class Word(NamedTuple):
    """A token of a document: its row, its column in the row, and its item with its position in the raw text."""

    row: int
    column: int
    item: Item


def locate_words(text: str, cut: TokenizedDocument, tokenizer: Tokenizer) -> list[list[Word]]:
    """Return the tokens of each row, indexed through the document, with their spans in the raw text."""
    rows: list[list[Word]] = []
    index, start, previous_span = 0, 0, None
    sentence_items: list[Item] = []
    for row, (tokens, span) in enumerate(zip(cut.rows, cut.spans, strict=True)):
        if span != previous_span:
            pieces = tokenizer.encode_with_offsets(text[span[0] : span[1]])
            sentence_items = [Item(p.text, span=(span[0] + p.start, span[0] + p.stop)) for p in pieces]
            start, previous_span = 0, span
        items = sentence_items[start : start + len(tokens)]
        rows.append([Word(row, i, item._replace(word=index + i)) for i, item in enumerate(items)])
        start, index = start + len(tokens), index + len(tokens)
    return rows


def overlaps_any(span: Span | None, spans: Sequence[Span]) -> bool:
    """Return True if a span overlaps at least one of the others."""
    return span is not None and any(span[0] < stop and span[1] > start for start, stop in spans)


def build_inspectable(
    model: Any,
    classified: ClassifiedDocument,
    *,
    tokenizer: Tokenizer,
    special_tokens: SpecialTokens,
    device: torch.device,
) -> Inspectable:
    """A document and its labels -> axes, outputs and replays of the model."""
    words = locate_words(classified.text, classified.tokenized, tokenizer)
    replay = Replay(model, classified.tokenized, device)
    attention_axes = {name for attend in attention_modules(model).values() for name in (attend.queries, attend.keys)}
    bindings = [
        binding
        for name, build_axes in AXIS_BUILDERS.items()
        if name in attention_axes
        for binding in build_axes(classified, words, tokenizer, special_tokens)
    ]
    axes = {"label": Axis((Item(classified.outputs[0].text, word=0),), "label")}
    axes |= {binding.axis: binding.definition for binding in bindings}
    references: dict[str, tuple[AxisRef, ...]] = {"label": (AxisRef("label", None),)}
    for binding in bindings:
        previous = references.get(binding.model_axis, ())
        references[binding.model_axis] = (*previous, AxisRef(binding.axis, binding.batch))
    sentences = document_corpus.collate_documents([classified.tokenized])
    document = concat_sentences(sentences)
    return Inspectable(
        title=shorten(classified.text, MAX_TITLE_CHARACTERS, placeholder=" …"),
        axes=axes,
        query_axes=references,
        key_axes=references,
        outputs=tuple(classified.outputs),
        replay=replay,
        predicted_ids=torch.tensor([classified.label], device=device),
        seconds=classified.seconds,
        ablations={binding.axis: partial(binding.ablate, replay) for binding in bindings},
        deletion_axes={binding.axis: False for binding in bindings},
        inputs={
            "words": sentences.tokens,
            "document": document.tokens,
            "text": add_bos_eos(document, special_tokens).tokens,
        },
        truth=_truth(classified, words, axes),
        vocabularies=(vocabulary_sample(tokenizer, [token for row in classified.tokenized.rows for token in row]),),
        views=("document",),
        remarks=classified.remarks,
        extra={"document": _view_data(classified)},
    )


@dataclass(frozen=True)
class Replay:
    """Runs the model again over a document, or over the document without a word or sentence."""

    model: DocumentModel
    tokenized: TokenizedDocument
    device: torch.device

    def __call__(self) -> Tensor:
        """Return logits (1 v)."""
        return self.run([self.tokenized.rows])[0]

    def run(self, documents: Sequence[Sequence[Sequence[int]]]) -> Tensor:
        """Documents as rows of tokens -> logits (m 1 v); empty rows are dropped."""
        logits: list[Tensor] = []
        for start in range(0, len(documents), BATCH_DOCUMENTS):
            chunk = [
                self.tokenized._replace(rows=[list(row) for row in rows if row])
                for rows in documents[start : start + BATCH_DOCUMENTS]
            ]
            batch = map_tensors(document_corpus.collate_documents(chunk), lambda x: x.to(self.device))
            logits.append(self.model.readout(self.model(batch)))
        return torch.cat(logits)[:, None]

    def ablate_sentences(self) -> Tensor:
        """Return logits (m 1 v) with each sentence in turn removed."""
        rows = self.tokenized.rows
        return self.run([[*rows[:i], *rows[i + 1 :]] for i in range(len(rows))])

    def ablate_words(self, words: Sequence[Word | None]) -> Tensor:
        """Return logits (m 1 v) with each word in turn removed; None, a special token, removes nothing."""
        return self.run([self._without(word) for word in words])

    def _without(self, word: Word | None) -> list[list[int]]:
        rows = [list(row) for row in self.tokenized.rows]
        if word is not None:
            del rows[word.row][word.column]
        return rows


class AxisBinding(NamedTuple):
    """An axis of the page for an axis name of the model's attention."""

    model_axis: str  # name of the axis in the model
    axis: str  # name of the axis on the page
    definition: Axis
    batch: int
    ablate: Callable[[Replay], Tensor]


def _word_axes(
    classified: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, special_tokens: SpecialTokens
) -> list[AxisBinding]:
    bindings = []
    for index, row in enumerate(words):
        items = tuple(word.item for word in row)
        axis = Axis(items, f"words of sentence {index + 1}", Parent("sentences", index), "words")
        bindings.append(AxisBinding("words", f"words.{index}", axis, index, partial(Replay.ablate_words, words=row)))
    return bindings


def _sentence_axes(
    classified: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, special_tokens: SpecialTokens
) -> list[AxisBinding]:
    items = []
    for index, (row, sentence_span) in enumerate(zip(words, classified.tokenized.spans, strict=True)):
        first, last = row[0].item.span, row[-1].item.span
        span = sentence_span if first is None or last is None else (first[0], last[1])
        text = " ".join(classified.text[span[0] : span[1]].split())
        text = text if len(text) <= MAX_SENTENCE_CHARACTERS else f"{text[:MAX_SENTENCE_CHARACTERS]}…"
        items.append(Item(text, word=index, span=span))
    return [AxisBinding("sentences", "sentences", Axis(tuple(items), "sentences"), 0, Replay.ablate_sentences)]


def _document_axes(
    classified: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, special_tokens: SpecialTokens
) -> list[AxisBinding]:
    flat = [word for row in words for word in row]
    axis = Axis(tuple(word.item for word in flat), "words", input="document")
    return [AxisBinding("document", "document", axis, 0, lambda replay: replay.ablate_words(flat))]


def _text_axes(
    classified: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, special_tokens: SpecialTokens
) -> list[AxisBinding]:
    flat = [word for row in words for word in row]
    bos, eos = (Item(tokenizer.token_text(token), special=True) for token in (special_tokens.bos, special_tokens.eos))
    axis = Axis((bos, *(word.item for word in flat), eos), "words", input="text")
    return [AxisBinding("text", "text", axis, 0, lambda replay: replay.ablate_words([None, *flat, None]))]


AxisBuilder = Callable[[ClassifiedDocument, list[list[Word]], Tokenizer, SpecialTokens], list[AxisBinding]]
AXIS_BUILDERS: dict[str, AxisBuilder] = {
    "sentences": _sentence_axes,
    "words": _word_axes,
    "document": _document_axes,
    "text": _text_axes,
}


def _truth(classified: ClassifiedDocument, words: list[list[Word]], axes: dict[str, Axis]) -> Truth | None:
    """Return links from the label to the evidence words, in their sentence or in the complete document."""
    if classified.review is None:
        return None
    evidence = [word for row in words for word in row if overlaps_any(word.item.span, classified.review.evidence_words)]
    names = [f"words.{evidence[0].row}", "document", "text"] if evidence else []
    axis = next((name for name in names if name in axes), None)
    links = frozenset((word.item.word, 0) for word in evidence if word.item.word is not None)
    return None if axis is None else Truth("label", axis, links)


def _view_data(classified: ClassifiedDocument) -> dict[str, object]:
    """Return JSON values for the page: the text, and the spans of the evidence if known."""
    review = classified.review
    evidence = (
        None
        if review is None
        else {"words": list(review.evidence_words), "sentence": review.sentences[review.evidence_sentence]}
    )
    return {"text": classified.text, "deciding": evidence}
