"""A toy model: embedding, two recurrent blocks with dropout, and a readout tied to the embedding."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Sums:
    """A data spec of the toys."""

    words: int


@dataclass(frozen=True)
class Config:
    dim: int = 8
    dropout: float = 0.3
    spare: bool = False  # a weight that never gets a gradient


class Block(nn.Module):
    def __init__(self, dim, dropout):
        super().__init__()
        self.cell = nn.GRU(dim, dim, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.cell(self.norm(x))[0])


class Gated(nn.Module):
    def __init__(self, config, words):
        super().__init__()
        self.embedding = nn.Embedding(words, config.dim)
        self.blocks = nn.ModuleList(Block(config.dim, config.dropout) for _ in range(2))
        self.readout = nn.Linear(config.dim, words)
        self.readout.weight = self.embedding.weight
        if config.spare:
            self.spare = nn.Linear(config.dim, config.dim)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.readout(x)


TINY = Config()
PRESETS = {"wide": Config(dim=16)}


def build(config: Config, sizes: Sums) -> Gated:
    return Gated(config, sizes.words)
