"""What models of documents and of tags are given: sentences grouped by document, tokens grouped by unit.

The sentences of a batch stand one below the other, so that none is computed for a document that has fewer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Padded


class SentenceBatch(NamedTuple):
    """The sentences of some documents; those of a document stand together, in order."""

    tokens: Tensor  # (n s) padded on the right
    lengths: Tensor  # (n) tokens of each sentence
    counts: Tensor  # (b) sentences of each document


class UnitBatch(NamedTuple):
    """Sentences of units (words or characters) that are tagged; each unit is one token or several."""

    tokens: Tensor  # (b t) padded on the right
    lengths: Tensor  # (b) tokens of each sentence
    first_token_indices: Tensor  # (b u) the first token of each unit; 0 at padding
    counts: Tensor  # (b) units of each sentence
    characters: Tensor  # (b u c) how each unit is spelt, padded on the right; c is 0 where units are characters


def group_by_document(x: Tensor, counts: Tensor) -> Tensor:
    """Features of all sentences (n …) -> (b m …): those of each document, zeros behind the last."""
    most = int(counts.max()) if len(counts) else 0
    places = (torch.arange(most, device=x.device) < counts[:, None]).flatten().nonzero().flatten()
    return x.new_zeros(len(counts) * most, *x.shape[1:]).index_copy(0, places, x).view(len(counts), most, *x.shape[1:])


def concat_sentences(documents: SentenceBatch) -> Padded:
    """The sentences of each document -> its tokens without cuts (b t), padded on the right by zeros."""
    there = torch.arange(documents.tokens.shape[1], device=documents.tokens.device) < documents.lengths[:, None]
    document = torch.arange(len(documents.counts), device=documents.counts.device).repeat_interleave(documents.counts)
    lengths = torch.zeros_like(documents.counts).index_add(0, document, documents.lengths)
    return Padded(group_by_document(documents.tokens[there], lengths), lengths)


def add_bos_eos(text: Padded, special_tokens: SpecialTokens) -> Padded:
    """Rows w1 … wn -> start w1 … wn end."""
    rows, width = text.tokens.shape
    tokens = text.tokens.new_full((rows, width + 2), special_tokens.pad)
    tokens[:, 0] = special_tokens.bos
    tokens[:, 1:-1] = text.tokens
    places = torch.arange(width + 2, device=tokens.device)
    end = places == text.lengths[:, None] + 1
    return Padded(
        tokens.masked_fill(end, special_tokens.eos).masked_fill(places > text.lengths[:, None] + 1, special_tokens.pad),
        text.lengths + 2,
    )


def gather_first_tokens(x: Tensor, batch: UnitBatch) -> Tensor:
    """Features of tokens (b t d) -> features of units (b u d)."""
    return x.gather(1, batch.first_token_indices[..., None].expand(-1, -1, x.shape[2]))
