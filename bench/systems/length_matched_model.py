"""A model of random weights whose outputs end as translations do: about where the reference of the sentence ends.

Random weights know no end. Of this model the row of the output for the end mark, with its bias, is fitted (ridge
regression on the features of the model's own greedy outputs), so that the mark outgrows all others where the reference
would be over. Lengths are spread and follow the source, and every system that is given these weights finds the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens
from regard.data import batching
from systems.workload import END, START, Sentences

PEAKED = 3.0  # the output's weights are so many times wider than at the start of training: some words are likely
SLOPE = 2.0  # by how much the end mark's logit, less the largest other, rises from token to token
NEAR = 8  # tokens around the end that the regression tells apart
SAMPLE = 128  # sentences


@torch.inference_mode()
def fit(net: Any, sentences: Sentences) -> Any:
    """Change the readout of the model, which has weights of its own, and return the model."""
    net.readout.weight.mul_(PEAKED)
    net.readout.weight[[SpecialTokens.pad, START, END]] = 0.0
    net.readout.bias = nn.Parameter(torch.zeros(net.readout.out_features), requires_grad=False)
    net.readout.bias[[SpecialTokens.pad, START, END]] = -1e4  # they stay out of the outputs that are looked at
    rows = [[*row, END] for row in sentences.source[:SAMPLE]]
    ends = torch.tensor([len(row) for row in sentences.target[:SAMPLE]])
    features, largest = follow(net, rows, steps=int(ends.max()) + NEAR)
    beyond_end = (torch.arange(features.shape[1])[None] - ends[:, None] + 0.5).clamp(-NEAR, NEAR)
    row = solve(features.flatten(0, 1), (largest + SLOPE * beyond_end).flatten())
    net.readout.weight[END], net.readout.bias[END] = row[:-1], row[-1]
    return net


def follow(net: Any, rows: list[list[int]], *, steps: int) -> tuple[Tensor, Tensor]:
    """Greedy outputs -> features (b t d), and the largest logit at each place (b t)."""
    state, fed = net.start(batching.pad(rows)), torch.full((len(rows), 1), START)
    features, largest = [], []
    for _ in range(steps):
        x, state = net.features(fed, state)
        best, fed = net.readout(x).max(dim=2)
        features.append(x)
        largest.append(best)
    return torch.cat(features, dim=1), torch.cat(largest, dim=1)


def solve(x: Tensor, y: Tensor) -> Tensor:
    """The weights, the last one the constant, with the least squared error; a small penalty keeps them tame."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    return torch.linalg.solve(x.mT @ x + 1e-2 * len(x) * torch.eye(x.shape[1]), x.mT @ y.double()).float()
