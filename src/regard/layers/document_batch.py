"""What models of documents and of tags are given: sentences grouped by document, tokens grouped by unit.

The sentences of a batch stand one below the other, so that none is computed for a document that has fewer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Padded


class Grouped(NamedTuple):
    """The sentences of some documents; those of a document stand together, in order."""

    tokens: Tensor  # (n s) padded on the right
    lengths: Tensor  # (n) tokens of each sentence
    counts: Tensor  # (b) sentences of each document


class Units(NamedTuple):
    """Sentences of units (words or characters) that are tagged; each unit is one token or several."""

    tokens: Tensor  # (b t) padded on the right
    lengths: Tensor  # (b) tokens of each sentence
    firsts: Tensor  # (b u) the first token of each unit; 0 at padding
    counts: Tensor  # (b) units of each sentence
    letters: Tensor  # (b u c) how each unit is spelt, padded on the right; c is 0 where units are characters


def group(x: Tensor, counts: Tensor) -> Tensor:
    """Features of all sentences (n …) -> (b m …): those of each document, zeros behind the last."""
    most = int(counts.max()) if len(counts) else 0
    places = (torch.arange(most, device=x.device) < counts[:, None]).flatten().nonzero().flatten()
    return x.new_zeros(len(counts) * most, *x.shape[1:]).index_copy(0, places, x).view(len(counts), most, *x.shape[1:])


def joined(documents: Grouped) -> Padded:
    """The sentences of each document -> its tokens without cuts (b t), padded on the right by zeros."""
    there = torch.arange(documents.tokens.shape[1], device=documents.tokens.device) < documents.lengths[:, None]
    document = torch.arange(len(documents.counts), device=documents.counts.device).repeat_interleave(documents.counts)
    lengths = torch.zeros_like(documents.counts).index_add(0, document, documents.lengths)
    return Padded(group(documents.tokens[there], lengths), lengths)


def marked(text: Padded, marks: SpecialTokens) -> Padded:
    """Rows w1 … wn -> start w1 … wn end."""
    rows, width = text.tokens.shape
    tokens = text.tokens.new_full((rows, width + 2), marks.pad)
    tokens[:, 0] = marks.start
    tokens[:, 1:-1] = text.tokens
    places = torch.arange(width + 2, device=tokens.device)
    end = places == text.lengths[:, None] + 1
    return Padded(
        tokens.masked_fill(end, marks.end).masked_fill(places > text.lengths[:, None] + 1, marks.pad), text.lengths + 2
    )


def first_tokens(x: Tensor, sentences: Units) -> Tensor:
    """Features of tokens (b t d) -> features of units (b u d)."""
    return x.gather(1, sentences.firsts[..., None].expand(-1, -1, x.shape[2]))
