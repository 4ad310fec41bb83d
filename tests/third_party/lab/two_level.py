"""A third-party model: attention over the patches of each quarter of an image, then over the quarters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.quarters import Quarters
from regard.attention import scores
from regard.attention.attend import Attend
from regard.layers.readout import Readout


@dataclass(frozen=True)
class Config:
    """Width of the model, and its score."""

    dim: int = 16
    score: str = "lab.sharp"


TINY = Config(dim=8)


class Pool(nn.Module):
    """(b n d) -> (b d): a learned query attends to n features."""

    def __init__(self, dim: int, score: str, *, keys: str) -> None:
        super().__init__()
        self.question = nn.Parameter(torch.randn(dim) * dim**-0.5)
        self.attend = Attend(scores.build(score, dim), queries="question", keys=keys)

    def forward(self, x: Tensor) -> Tensor:
        query = self.question.expand(x.shape[0], 1, 1, -1)
        keys = self.attend.project(x[:, None])
        return self.attend(query, keys, x[:, None])[:, 0, 0]


class TwoLevel(nn.Module):
    def __init__(self, config: Config, sizes: Quarters) -> None:
        super().__init__()
        self.embed = nn.Linear(sizes.pixels, config.dim)
        self.inner = Pool(config.dim, config.score, keys="patches")
        self.outer = Pool(config.dim, config.score, keys="quarters")
        self.place = nn.Parameter(torch.randn(4, config.dim) * config.dim**-0.5)
        self.readout = Readout(config.dim, sizes.classes)

    def forward(self, patches: Tensor) -> Tensor:
        """(b quarters patches pixels) -> (b d)."""
        b, quarters, _, _ = patches.shape
        x = torch.tanh(self.embed(patches)).flatten(0, 1)
        quarter = self.inner(x).view(b, quarters, -1) + self.place
        return self.outer(quarter)


def build(config: Config, sizes: Quarters) -> TwoLevel:
    return TwoLevel(config, sizes)
