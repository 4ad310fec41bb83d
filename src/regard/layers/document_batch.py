"""Batches for document and tagging models: sentences grouped by document, tokens grouped by unit.

The sentences of all documents are rows of one tensor, so that no row is padding.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Padded


class SentenceBatch(NamedTuple):
    """Sentences of documents; those of a document are consecutive rows, in order."""

    tokens: Tensor  # (n s) padded on the right
    lengths: Tensor  # (n) tokens of each sentence
    counts: Tensor  # (b) sentences of each document


class UnitBatch(NamedTuple):
    """Sentences of tagged units (words or characters); each unit has one or more tokens."""

    tokens: Tensor  # (b t) padded on the right
    lengths: Tensor  # (b) tokens of each sentence
    first_token_indices: Tensor  # (b u) index of the first token of each unit; 0 at padding
    counts: Tensor  # (b) units of each sentence
    characters: Tensor  # (b u c) characters of each unit, padded on the right; c is 0 if units are characters


def group_by_document(x: Tensor, counts: Tensor) -> Tensor:
    """Features of all sentences (n …) -> (b m …), grouped by document and padded with zeros."""
    max_sentences = int(counts.max()) if len(counts) else 0
    indices = (torch.arange(max_sentences, device=x.device) < counts[:, None]).flatten().nonzero().flatten()
    return (
        x.new_zeros(len(counts) * max_sentences, *x.shape[1:])
        .index_copy(0, indices, x)
        .view(len(counts), max_sentences, *x.shape[1:])
    )


def concat_sentences(documents: SentenceBatch) -> Padded:
    """Sentences of each document -> its tokens in one row (b t), padded on the right with zeros."""
    mask = torch.arange(documents.tokens.shape[1], device=documents.tokens.device) < documents.lengths[:, None]
    document_index = torch.arange(len(documents.counts), device=documents.counts.device).repeat_interleave(
        documents.counts
    )
    lengths = torch.zeros_like(documents.counts).index_add(0, document_index, documents.lengths)
    return Padded(group_by_document(documents.tokens[mask], lengths), lengths)


def add_bos_eos(text: Padded, special_tokens: SpecialTokens) -> Padded:
    """Rows w1 … wn -> BOS w1 … wn EOS."""
    batch_size, width = text.tokens.shape
    tokens = text.tokens.new_full((batch_size, width + 2), special_tokens.pad)
    tokens[:, 0] = special_tokens.bos
    tokens[:, 1:-1] = text.tokens
    positions = torch.arange(width + 2, device=tokens.device)
    is_eos = positions == text.lengths[:, None] + 1
    return Padded(
        tokens.masked_fill(is_eos, special_tokens.eos).masked_fill(
            positions > text.lengths[:, None] + 1, special_tokens.pad
        ),
        text.lengths + 2,
    )


def gather_first_tokens(x: Tensor, batch: UnitBatch) -> Tensor:
    """Token features (b t d) -> unit features (b u d): those of the first token of each unit."""
    return x.gather(1, batch.first_token_indices[..., None].expand(-1, -1, x.shape[2]))
