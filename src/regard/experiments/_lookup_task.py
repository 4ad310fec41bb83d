"""A little thing that only attention can do: pairs of symbols are shown, one symbol is asked for, its partner is due.

It is learned by one attention layer: the asked symbol is the query, first symbols are the keys, their partners the
values. Experiments put other scores and widths into it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention import scores
from regard.attention.attend import Attend
from regard.layers.multihead import HeadDims, MultiHeadAttention

SYMBOLS, PAIRS, BATCH_SIZE = 64, 16, 64


class Lookup(nn.Module):
    """Keys (b s), their partners (b s) and what is asked for (b) -> logits of the partner (b v)."""

    def __init__(self, dim: int, score: str) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, dim)  # entries of variance 1, as behind a layer norm
        self.heads = MultiHeadAttention(Attend(scores.build(score, dim)), HeadDims.split_evenly(dim, 1))
        self.readout = nn.Linear(dim, SYMBOLS)

    def forward(self, keys: Tensor, partners: Tensor, queries: Tensor) -> Tensor:
        memory = self.heads.project_kv(self.symbols(keys), self.symbols(partners))
        found: Tensor = self.readout(self.heads(self.symbols(queries[:, None]), memory)[:, 0])
        return found


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys, all different, partners, what is asked for, and the answer."""
    keys = torch.rand(BATCH_SIZE, SYMBOLS, generator=generator).argsort(dim=1)[:, :PAIRS]
    partners = torch.randint(SYMBOLS, (BATCH_SIZE, PAIRS), generator=generator)
    at = torch.randint(PAIRS, (BATCH_SIZE, 1), generator=generator)
    return keys, partners, keys.gather(1, at)[:, 0], partners.gather(1, at)[:, 0]


def accuracy_after(model: Lookup, steps: int, *, seed: int) -> float:
    """Train, and answer 20 batches that it has not seen: the share that is right."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(steps):
        *shown, due = batch(generator)
        loss = cross_entropy(model(*shown), due)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = 0
    with torch.no_grad():
        for _ in range(20):
            *shown, due = batch(generator)
            right += int((model(*shown).argmax(dim=1) == due).sum())
    return right / (20 * BATCH_SIZE)
