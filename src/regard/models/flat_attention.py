"""Attention over all words of a document: the flat baseline of `hierarchical`, of about the same size.

    words of the document -> bidirectional GRU -> attention over the words -> one vector per document -> label

It has the parts and settings of one level of Yang et al. 2016 and ignores sentence boundaries. A larger `dim` gives its
one level as many weights as both levels have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.data_specs import DocumentSpec
from regard.layers.document_batch import SentenceBatch, concat_sentences
from regard.models._hierarchical_encoder import (
    TINY_CONFIG,
    Config,
    HierarchyLevel,
    build_embedding,
    build_readout,
    build_votes,
    pack,
)

PRESETS = {"small": Config(embedding=50, dim=24, attention_dim=48, heads=4, dropout=0.3)}
TINY = TINY_CONFIG


class FlatAttention(nn.Module):
    """Documents -> features (b 2·dim) and the n-gram votes, the input of `readout`."""

    def __init__(self, config: Config, sizes: DocumentSpec) -> None:
        super().__init__()
        self.embedding = build_embedding(config, sizes)
        self.words = HierarchyLevel(
            config.embedding, config, encoder=config.encoder, max_length=sizes.max_length, axis="document"
        )
        self.votes = build_votes(config, sizes)
        self.readout = build_readout(2 * config.dim, self.votes, sizes)

    def forward(self, documents: SentenceBatch) -> Tensor:
        text = concat_sentences(documents)
        document: Tensor = self.words(pack(self.embedding(text.tokens), text.lengths))
        return document if self.votes is None else torch.cat([document, self.votes(documents)], dim=1)


def build(config: Config, sizes: DocumentSpec) -> FlatAttention:
    """Return a model for the given settings and data spec."""
    return FlatAttention(config, sizes)
