"""Hierarchical attention network: Yang et al. 2016. Words form sentences, sentences form the document.

    words -> bidirectional GRU -> attention over the words of each sentence -> one vector per sentence
    sentences -> bidirectional GRU -> attention over the sentences -> one vector per document -> label

All sentences of a batch are encoded together, whatever document they belong to, without computation for padding. With
`encoder = "blocks"` Transformer blocks replace the GRUs. A GRU over sentences passes information between neighbors, so
that attention may fall on any of them; with `sentence_encoder = "none"` it falls on the decisive one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.data_specs import DocumentSpec
from regard.layers.document_batch import SentenceBatch, group_by_document
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


class Hierarchical(nn.Module):
    """Documents -> features (b 2·dim) and the n-gram votes, the input of `readout`."""

    def __init__(self, config: Config, sizes: DocumentSpec) -> None:
        super().__init__()
        self.embedding = build_embedding(config, sizes)
        self.words = HierarchyLevel(
            config.embedding, config, encoder=config.encoder, max_length=sizes.max_sentence_length, axis="words"
        )
        sentence_encoder = config.sentence_encoder or config.encoder
        self.sentences = HierarchyLevel(
            2 * config.dim, config, encoder=sentence_encoder, max_length=sizes.max_sentences, axis="sentences"
        )
        self.votes = build_votes(config, sizes)
        self.readout = build_readout(2 * config.dim, self.votes, sizes)

    def forward(self, documents: SentenceBatch) -> Tensor:
        sentences = self.words(pack(self.embedding(documents.tokens), documents.lengths))  # (n 2·dim)
        document: Tensor = self.sentences(pack(group_by_document(sentences, documents.counts), documents.counts))
        return document if self.votes is None else torch.cat([document, self.votes(documents)], dim=1)


def build(config: Config, sizes: DocumentSpec) -> Hierarchical:
    """Return a model for the given settings and data spec."""
    return Hierarchical(config, sizes)
