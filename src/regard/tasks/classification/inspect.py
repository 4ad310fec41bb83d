"""A document as it is shown: its sentences, the words of each, and the model run again without one of them.

Which axes there are follows from what the model's attention looks at: `words` of each sentence and `sentences`, all
words of the `document`, or its `text` between marks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.record import attention_modules
from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Parent, Truth, Vocabulary
from regard.core.state_tree import map_tensors
from regard.data.builtin.reviews import Review
from regard.data.text import document_corpus
from regard.data.text.document_corpus import TokenizedDocument
from regard.data.text.sentence_splitter import Span
from regard.data.text.tokenizer import Tokenizer
from regard.layers.document_batch import add_bos_eos, concat_sentences
from regard.tasks.language.inspect import sample_vocabulary

BATCH_DOCUMENTS = 64  # documents that are read at once when one word after the other is taken away
MAX_SENTENCE_CHARACTERS = 60  # characters of a sentence that stand on its axis
MAX_TITLE_CHARACTERS = 200  # characters of a document that stand above the page


class ClassifiedDocument(NamedTuple):
    """A document and what the model says of it."""

    text: str
    cut: TokenizedDocument
    outputs: Sequence[Output]  # best first
    label: int  # the number of the best label
    seconds: float
    review: Review | None  # what decides, where that is known


class Word(NamedTuple):
    """A token of a document: in which row it stands, at which place, and where in the raw text."""

    row: int
    column: int
    item: Item


def locate_words(text: str, cut: TokenizedDocument, tokenizer: Tokenizer) -> list[list[Word]]:
    """The tokens of each row, numbered through the document, with their places in the raw text."""
    rows: list[list[Word]] = []
    number, begun, before = 0, 0, None
    pieces: list[Item] = []
    for index, (row, span) in enumerate(zip(cut.rows, cut.spans, strict=True)):
        if span != before:
            found = tokenizer.encode_with_offsets(text[span[0] : span[1]])
            pieces = [Item(p.text, span=(span[0] + p.start, span[0] + p.stop)) for p in found]
            begun, before = 0, span
        own = pieces[begun : begun + len(row)]
        rows.append([Word(index, i, item._replace(word=number + i)) for i, item in enumerate(own)])
        begun, number = begun + len(row), number + len(row)
    return rows


def overlaps_any(span: Span | None, spans: Sequence[Span]) -> bool:
    """Whether a place in a text touches one of some others."""
    return span is not None and any(span[0] < stop and span[1] > start for start, stop in spans)


def build_inspectable(
    model: nn.Module,
    classified: ClassifiedDocument,
    *,
    tokenizer: Tokenizer,
    special_tokens: SpecialTokens,
    device: torch.device,
) -> Inspectable:
    """A document and its label -> axes, outputs, and ways to run the model again."""
    words = locate_words(classified.text, classified.cut, tokenizer)
    replay = Replay(model, classified.cut, device)
    used = {name for attend in attention_modules(model).values() for name in (attend.queries, attend.keys)}
    parts = [
        part
        for name, make in AXIS_BUILDERS.items()
        if name in used
        for part in make(classified, words, tokenizer, special_tokens)
    ]
    axes = {"label": Axis((Item(classified.outputs[0].text, word=0),), "label")} | {
        part.axis: part.definition for part in parts
    }
    places: dict[str, tuple[AxisRef, ...]] = {"label": (AxisRef("label", None),)}
    for part in parts:
        places[part.model_axis] = (*places.get(part.model_axis, ()), AxisRef(part.axis, part.batch))
    grouped = document_corpus.collate_documents([classified.cut])
    whole = concat_sentences(grouped)
    return Inspectable(
        title=shorten(classified.text, MAX_TITLE_CHARACTERS, placeholder=" …"),
        axes=axes,
        query_axes=places,
        key_axes=places,
        outputs=tuple(classified.outputs),
        replay=replay,
        predicted_ids=torch.tensor([classified.label], device=device),
        seconds=classified.seconds,
        ablations={part.axis: partial(part.ablate, replay) for part in parts},
        deletion_axes={part.axis: False for part in parts},
        inputs={"words": grouped.tokens, "document": whole.tokens, "text": add_bos_eos(whole, special_tokens).tokens},
        truth=_truth(classified, words, axes),
        vocabularies=(_vocabulary(classified, tokenizer),),
        views=("document",),
        extra={"document": _extra(classified)},
    )


@dataclass(frozen=True)
class Replay:
    """The model run again over a document, or over the document with something taken away."""

    model: nn.Module
    cut: TokenizedDocument
    device: torch.device

    def __call__(self) -> Tensor:
        """Logits (1 v)."""
        return self.run([self.cut.rows])[0]

    def run(self, documents: Sequence[Sequence[Sequence[int]]]) -> Tensor:
        """Documents as rows of tokens -> logits (m 1 v); empty rows are left out."""
        logits: list[Tensor] = []
        for start in range(0, len(documents), BATCH_DOCUMENTS):
            some = [
                self.cut._replace(rows=[list(r) for r in d if r]) for d in documents[start : start + BATCH_DOCUMENTS]
            ]
            given = map_tensors(document_corpus.collate_documents(some), lambda x: x.to(self.device))
            logits.append(self.model.readout(self.model(given)))  # type: ignore[operator]  # a module of the model
        return torch.cat(logits)[:, None]

    def ablate_sentences(self) -> Tensor:
        """Each sentence taken out in turn."""
        rows = self.cut.rows
        return self.run([[*rows[:i], *rows[i + 1 :]] for i in range(len(rows))])

    def ablate_words(self, words: Sequence[Word | None]) -> Tensor:
        """Each word taken out in turn; None, a mark, takes nothing out."""
        return self.run([self._less(word) for word in words])

    def _less(self, word: Word | None) -> list[list[int]]:
        rows = [list(row) for row in self.cut.rows]
        if word is not None:
            del rows[word.row][word.column]
        return rows


class AxisBinding(NamedTuple):
    """An axis that attention of some name means."""

    model_axis: str  # of the axis in the model
    axis: str  # here
    definition: Axis
    batch: int
    ablate: Callable[[Replay], Tensor]


def _word_parts(
    found: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, marks: SpecialTokens
) -> list[AxisBinding]:
    return [
        AxisBinding(
            "words",
            f"words.{index}",
            Axis(
                tuple(word.item for word in row), f"words of sentence {index + 1}", Parent("sentences", index), "words"
            ),
            index,
            lambda replay, row=row: replay.ablate_words(row),  # type: ignore[misc]  # a lambda's default has no type
        )
        for index, row in enumerate(words)
    ]


def _sentence_parts(
    found: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, marks: SpecialTokens
) -> list[AxisBinding]:
    items = []
    for index, (row, span) in enumerate(zip(words, found.cut.spans, strict=True)):
        first, last = row[0].item.span, row[-1].item.span
        place = span if first is None or last is None else (first[0], last[1])
        text = " ".join(found.text[place[0] : place[1]].split())
        items.append(
            Item(
                text if len(text) <= MAX_SENTENCE_CHARACTERS else f"{text[:MAX_SENTENCE_CHARACTERS]}…",
                word=index,
                span=place,
            )
        )
    return [AxisBinding("sentences", "sentences", Axis(tuple(items), "sentences"), 0, Replay.ablate_sentences)]


def _document_parts(
    found: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, marks: SpecialTokens
) -> list[AxisBinding]:
    flat = [word for row in words for word in row]
    axis = Axis(tuple(word.item for word in flat), "words", input="document")
    return [AxisBinding("document", "document", axis, 0, lambda replay: replay.ablate_words(flat))]


def _text_parts(
    found: ClassifiedDocument, words: list[list[Word]], tokenizer: Tokenizer, marks: SpecialTokens
) -> list[AxisBinding]:
    flat = [word for row in words for word in row]
    first, last = (Item(tokenizer.token_text(mark), special=True) for mark in (marks.bos, marks.eos))
    axis = Axis((first, *(word.item for word in flat), last), "words", input="text")
    return [AxisBinding("text", "text", axis, 0, lambda replay: replay.ablate_words([None, *flat, None]))]


AXIS_BUILDERS: dict[
    str, Callable[[ClassifiedDocument, list[list[Word]], Tokenizer, SpecialTokens], list[AxisBinding]]
] = {
    "sentences": _sentence_parts,
    "words": _word_parts,
    "document": _document_parts,
    "text": _text_parts,
}


def _truth(found: ClassifiedDocument, words: list[list[Word]], axes: dict[str, Axis]) -> Truth | None:
    """The label should look at the deciding words, in their sentence or in the whole document."""
    if found.review is None:
        return None
    deciding = [word for row in words for word in row if overlaps_any(word.item.span, found.review.evidence_words)]
    names = [f"words.{deciding[0].row}", "document", "text"] if deciding else []
    axis = next((name for name in names if name in axes), None)
    links = frozenset((word.item.word, 0) for word in deciding if word.item.word is not None)
    return None if axis is None else Truth("label", axis, links)


def _extra(found: ClassifiedDocument) -> dict[str, object]:
    review = found.review
    deciding = (
        None
        if review is None
        else {"words": list(review.evidence_words), "sentence": review.sentences[review.evidence_sentence]}
    )
    return {"text": found.text, "deciding": deciding}


def _vocabulary(found: ClassifiedDocument, tokenizer: Tokenizer) -> Vocabulary:
    return sample_vocabulary(tokenizer, tuple(token for row in found.cut.rows for token in row))
