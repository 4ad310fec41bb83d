"""Training steps of `hierarchical` beside a plain loop over sentences: the same network, data and weights, in one run.

    python bench/hierarchical.py [documents in a batch]

The plain loop is what one writes first: each sentence through an nn.GRU by itself, its words pooled, the sentences of
the document through a second one. Ours reads all sentences of the batch side by side, packed. Both give the same
features, which is checked before anything is timed. Lengths are drawn like those of IMDB.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import Tensor, nn

from regard.core.sizes import Documents
from regard.layers.grouping import Grouped
from regard.models import hierarchical

ROUNDS = 3


class Plain(nn.Module):
    """A loop over documents and sentences, with the weights of a model of ours."""

    def __init__(self, model: hierarchical.Hierarchical) -> None:
        super().__init__()
        self.table = model.embedding.table
        self.levels = nn.ModuleList([model.words, model.sentences])
        self.readout = model.readout

    def pool(self, x: Tensor, level: int) -> Tensor:
        """(n d) -> (2·dim)."""
        part = self.levels[level]
        mixed = part.mixer.both.net(x[None])[0][0]
        weights = torch.softmax(torch.tanh(part.pool.hidden(mixed)) @ part.pool.query, dim=0)
        return weights @ mixed

    def forward(self, documents: Grouped) -> Tensor:
        features, first = [], 0
        for count in documents.counts.tolist():
            rows = range(first, first + count)
            sentences = [self.pool(self.table(documents.tokens[i, : documents.lengths[i]]), 0) for i in rows]
            features.append(self.pool(torch.stack(sentences), 1))
            first += count
        return torch.stack(features)


def sample(documents: int, sizes: Documents, *, seed: int = 0) -> Grouped:
    """Random documents with lengths like those of IMDB."""
    chance = torch.Generator().manual_seed(seed)
    counts = (torch.randn(documents, generator=chance) * 0.6 + 2.3).exp().long().clamp(1, sizes.sentences)
    lengths = (torch.randn(int(counts.sum()), generator=chance) * 0.6 + 2.95).exp().long().clamp(1, sizes.sentence)
    tokens = torch.randint(4, sizes.size, (len(lengths), int(lengths.max())), generator=chance)
    return Grouped(tokens * (torch.arange(tokens.shape[1]) < lengths[:, None]), lengths, counts)


def seconds(model: nn.Module, given: Grouped) -> float:
    """The time of one forward and backward pass."""
    begun = time.perf_counter()
    labels = torch.zeros(len(given.counts), dtype=torch.long)
    model.readout.loss(model(given), labels).backward()
    return time.perf_counter() - begun


def compare(documents: int, sizes: Documents, config: hierarchical.Config) -> dict[str, float]:
    """Tokens per second of both, the best of some rounds that take turns, and their ratio."""
    torch.manual_seed(0)
    ours = hierarchical.build(config, sizes)
    plain, given = Plain(ours), sample(documents, sizes)
    torch.testing.assert_close(ours(given), plain(given), rtol=1e-3, atol=1e-4)
    pairs = [(seconds(ours, given), seconds(plain, given)) for _ in range(ROUNDS)]
    count = int(given.lengths.sum())
    fast, slow = (count / min(times) for times in zip(*pairs, strict=True))
    return {"ours tokens/s": fast, "plain loop tokens/s": slow, "ratio": fast / slow}


if __name__ == "__main__":
    shape = Documents(size=30_000, labels=2, longest=3000, sentence=60, sentences=150)
    settings = hierarchical.Config(dropout=0.0, word_dropout=0.0)
    for name, value in compare(int(sys.argv[1]) if len(sys.argv) > 1 else 32, shape, settings).items():
        print(f"{name}: {value:,.2f}")
