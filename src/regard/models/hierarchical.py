"""Hierarchical attention network: Yang et al. 2016. Words make sentences, sentences make the document.

words -> GRU in both directions -> attention over the words of each sentence -> one vector a sentence
sentences -> GRU in both directions -> attention over the sentences -> one vector a document -> label

All sentences of a batch are read side by side, whatever document they belong to, and nothing is computed for padding.
With `mixer = "blocks"` Transformer blocks stand in place of the GRUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.core.sizes import Documents
from regard.layers.grouping import Grouped, group
from regard.layers.labels import readout
from regard.layers.words import Words
from regard.models._levels import Level, Shape, pack


@dataclass(frozen=True)
class Config:
    """Section 2; the widths are the paper's."""

    embedding: int = 100  # width of a word's features
    dim: int = 50  # width of the GRU in each direction; blocks are twice as wide
    inner: int = 100  # width in which the learned query is compared with words and sentences
    mixer: Literal["gru", "blocks"] = "gru"  # what mixes the features before attention looks at them
    layers: int = 1  # blocks of each level
    heads: int = 4  # of a block
    position: str = "sinusoidal"  # how places are told to blocks: see regard list positions
    score: str = "dot"  # of the learned query and a word: see regard list scores
    dropout: float = 0.5  # of embeddings and of pooled features
    word_dropout: float = 0.1  # how often a word is read as unknown in training

    def __post_init__(self) -> None:
        Shape.of(self)


PRESETS = {"small": Config(embedding=50, dim=24, inner=48, heads=4, dropout=0.3)}
TINY = Config(embedding=8, dim=6, inner=6, heads=2, dropout=0.1, word_dropout=0.0)  # for tests


class Hierarchical(nn.Module):
    """Documents -> features (b 2·dim), from which `readout` makes logits of the labels."""

    def __init__(self, config: Config, sizes: Documents) -> None:
        super().__init__()
        shape = Shape.of(config)
        dropout = {"dropout": config.dropout, "word_dropout": config.word_dropout}
        self.embedding = Words(sizes.size, config.embedding, marks=sizes.marks, **dropout)
        self.words = Level(config.embedding, shape, longest=sizes.sentence, axis="words")
        self.sentences = Level(2 * config.dim, shape, longest=sizes.sentences, axis="sentences")
        self.readout = readout(2 * config.dim, sizes.labels, several=sizes.several)

    def forward(self, documents: Grouped) -> Tensor:
        sentences = self.words(pack(self.embedding(documents.tokens), documents.lengths))  # (n 2·dim)
        document: Tensor = self.sentences(pack(group(sentences, documents.counts), documents.counts))
        return document


def build(config: Config, sizes: Documents) -> Hierarchical:
    """Choices and what the data decided -> a model."""
    return Hierarchical(config, sizes)
