"""Documents as the sentences of a batch, all one below the other: no sentence is computed for a shorter document."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.protocols import Padded


class Grouped(NamedTuple):
    """The sentences of some documents; those of a document stand together, in order."""

    tokens: Tensor  # (n s) padded on the right
    lengths: Tensor  # (n) tokens of each sentence
    counts: Tensor  # (b) sentences of each document


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
