"""The position-wise network: the formula, applied to each position separately."""

from __future__ import annotations

import torch

from regard.layers.feedforward import FeedForward


def test_the_formula():
    network, x = FeedForward(6, 10), torch.randn(2, 3, 6)
    hidden = (x @ network.up.weight.mT + network.up.bias).clamp_min(0)
    torch.testing.assert_close(network(x), hidden @ network.down.weight.mT + network.down.bias)


def test_positions_are_independent():
    network, x = FeedForward(6, 10), torch.randn(1, 4, 6)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(network(x[:, order]), network(x)[:, order])
    assert network.up.bias.eq(0).all() and network.down.bias.eq(0).all()
