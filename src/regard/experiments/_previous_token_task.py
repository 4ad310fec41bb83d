"""A synthetic task of order: predict the previous token at every position, with blocks of self-attention."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention import scores
from regard.attention.attend import Attend
from regard.core.errors import ShapeError
from regard.experiments._plateau import NUM_EVALUATIONS
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import FeedForward
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.positions._base import PositionScheme

SYMBOLS, DIM, HEADS, BATCH_SIZE = 20, 32, 2, 64
SHORT = 16  # tokens of training sequences
TEST_SEED = 10_000  # added to the seed, for test data


class Reader(nn.Module):
    """Tokens (b t) -> logits (b t v), with blocks of bidirectional self-attention."""

    def __init__(self, position: str, max_length: int) -> None:
        super().__init__()
        scheme = positions.build(position, DIM, max_length=max_length)
        self.embedding = Embedding(embedding_table(SYMBOLS, DIM, pad=0), scheme, dropout=0.0)
        self.layers = nn.ModuleList(self._block(scheme) for _ in range(2))
        self.readout = nn.Linear(DIM, SYMBOLS)

    @staticmethod
    def _block(scheme: PositionScheme) -> Block:
        dims = HeadDims.split_evenly(DIM, HEADS)
        position_bias = scheme.position_bias(heads=HEADS, dim=dims.head_dim)
        attend = Attend(scores.build("scaled_dot", dims.head_dim), position_bias=position_bias)
        return Block(MultiHeadAttention(attend, dims), FeedForward(DIM, 2 * DIM), make_norm=partial(PreNorm, DIM, 0.0))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        logits: Tensor = self.readout(x)
        return logits


def train(model: Reader, steps: int, *, seed: int) -> list[float]:
    """Train on sequences of `SHORT` tokens, and return the accuracies at that length at equal distances."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    every, accuracies = -(-steps // NUM_EVALUATIONS), list[float]()
    for step in range(1, steps + 1):
        tokens = torch.randint(1, SYMBOLS, (BATCH_SIZE, SHORT), generator=generator)
        loss = cross_entropy(model(tokens)[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0 or step == steps:
            accuracies.append(accuracy(model, SHORT, seed=seed))
    return accuracies


@torch.no_grad()
def accuracy(model: Reader, length: int, *, seed: int) -> float:
    """Return the fraction of correct tokens in test sequences; 0 if the model has no encoding for this length."""
    generator = torch.Generator().manual_seed(seed + TEST_SEED)
    tokens = torch.randint(1, SYMBOLS, (4 * BATCH_SIZE, length), generator=generator)
    try:
        predicted = model(tokens)[:, 1:].argmax(dim=-1)
    except ShapeError:  # a table of fixed length
        return 0.0
    return float((predicted == tokens[:, :-1]).float().mean())
