"""A synthetic lookup task: given pairs of symbols and a query symbol, predict the partner of the query.

One attention layer can learn it: the first symbols are the keys, their partners the values. Experiments vary the score
and the width of the layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention import scores
from regard.attention.attend import Attend
from regard.experiments._plateau import NUM_EVALUATIONS
from regard.layers.multihead import HeadDims, MultiHeadAttention

SYMBOLS, PAIRS, BATCH_SIZE = 64, 16, 64
TEST_SEED = 10_000  # added to the seed, for test data


class Lookup(nn.Module):
    """Keys (b s), their partners (b s) and queries (b) -> logits of the partner (b v)."""

    def __init__(self, dim: int, score: str) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, dim)  # entries of variance 1, as after a layer norm
        self.heads = MultiHeadAttention(Attend(scores.build(score, dim)), HeadDims.split_evenly(dim, 1))
        self.readout = nn.Linear(dim, SYMBOLS)

    def forward(self, keys: Tensor, partners: Tensor, queries: Tensor) -> Tensor:
        memory = self.heads.project_kv(self.symbols(keys), self.symbols(partners))
        logits: Tensor = self.readout(self.heads(self.symbols(queries[:, None]), memory)[:, 0])
        return logits


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return distinct keys, their partners, queries and targets."""
    keys = torch.rand(BATCH_SIZE, SYMBOLS, generator=generator).argsort(dim=1)[:, :PAIRS]
    partners = torch.randint(SYMBOLS, (BATCH_SIZE, PAIRS), generator=generator)
    indices = torch.randint(PAIRS, (BATCH_SIZE, 1), generator=generator)
    return keys, partners, keys.gather(1, indices)[:, 0], partners.gather(1, indices)[:, 0]


def accuracy_curve(model: Lookup, steps: int, *, seed: int) -> list[float]:
    """Train the model, and return its accuracies on 20 new batches at equal distances; the last one is final."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    every, accuracies = -(-steps // NUM_EVALUATIONS), list[float]()
    for step in range(1, steps + 1):
        *inputs, targets = batch(generator)
        loss = cross_entropy(model(*inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0 or step == steps:
            accuracies.append(_accuracy(model, seed))
    return accuracies


@torch.no_grad()
def _accuracy(model: Lookup, seed: int) -> float:
    generator = torch.Generator().manual_seed(seed + TEST_SEED)
    correct = 0
    for _ in range(20):
        *inputs, targets = batch(generator)
        correct += int((model(*inputs).argmax(dim=1) == targets).sum())
    return correct / (20 * BATCH_SIZE)
