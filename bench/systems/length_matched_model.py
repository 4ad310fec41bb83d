"""A model with random weights whose outputs are about as long as the references.

Random weights never predict EOS. Here the output weights and the bias of EOS are fitted by ridge regression on the
features of the model's greedy outputs. EOS becomes the most likely token where the reference ends. Output lengths vary
with the source, and every system with these weights gives the same outputs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens
from regard.data import batching
from systems.workload import END, START, Sentences

PEAKED = 3.0  # factor of the output weights, so that some words are likely
SLOPE = 2.0  # increase per token of the logit of EOS minus the largest other logit
NEAR = 8  # tokens around the end that the regression distinguishes
SAMPLE = 128  # sentences


@torch.inference_mode()
def fit(net: Any, sentences: Sentences) -> Any:
    """Fit the readout of a model with untied embeddings in place, and return the model."""
    net.readout.weight.mul_(PEAKED)
    net.readout.weight[[SpecialTokens.pad, START, END]] = 0.0
    net.readout.bias = nn.Parameter(torch.zeros(net.readout.out_features), requires_grad=False)
    net.readout.bias[[SpecialTokens.pad, START, END]] = -1e4  # never generated in the sampled outputs
    rows = [[*row, END] for row in sentences.source[:SAMPLE]]
    ends = torch.tensor([len(row) for row in sentences.target[:SAMPLE]])
    features, largest = follow(net, rows, steps=int(ends.max()) + NEAR)
    beyond_end = (torch.arange(features.shape[1])[None] - ends[:, None] + 0.5).clamp(-NEAR, NEAR)
    row = solve(features.flatten(0, 1), (largest + SLOPE * beyond_end).flatten())
    net.readout.weight[END], net.readout.bias[END] = row[:-1], row[-1]
    return net


def follow(net: Any, rows: list[list[int]], *, steps: int) -> tuple[Tensor, Tensor]:
    """Decode greedily -> features (b t d), and the largest logit at each position (b t)."""
    state, fed = net.start(batching.pad(rows)), torch.full((len(rows), 1), START)
    features, largest = [], []
    for _ in range(steps):
        x, state = net.features(fed, state)
        best, fed = net.readout(x).max(dim=2)
        features.append(x)
        largest.append(best)
    return torch.cat(features, dim=1), torch.cat(largest, dim=1)


def solve(x: Tensor, y: Tensor) -> Tensor:
    """Return the least-squares weights with a small ridge penalty; the last weight is the constant."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    return torch.linalg.solve(x.mT @ x + 1e-2 * len(x) * torch.eye(x.shape[1]), x.mT @ y.double()).float()
