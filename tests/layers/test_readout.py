"""The chunked loss equals PyTorch's cross entropy of a linear layer, forward and gradient, at every chunk edge."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.layers import readout
from regard.layers.readout import Readout, linear_cross_entropy


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [True, False])
def test_equals_the_two_steps(n, smoothing, biased, monkeypatch):
    monkeypatch.setattr(readout, "ROWS", 4)
    monkeypatch.setattr(readout, "LOGITS", 4)
    x, weight, bias = (torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((n, 3), (7, 3), (7,)))
    labels = torch.randint(0, 7, (n,))
    leaves = [x, weight, bias] if biased else [x, weight]
    found = linear_cross_entropy(x, weight, bias if biased else None, labels, smoothing)
    logits = x @ weight.mT + (bias if biased else 0)
    expected = cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * expected, leaves))


def test_gradcheck(monkeypatch):
    monkeypatch.setattr(readout, "ROWS", 2)
    monkeypatch.setattr(readout, "LOGITS", 2)
    leaves = tuple(torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((3, 2), (4, 2), (4,)))
    labels = torch.tensor([0, 3, 1])
    assert torch.autograd.gradcheck(lambda x, w, b: linear_cross_entropy(x, w, b, labels, 0.1), leaves)


@pytest.mark.parametrize("needed", [(True, False), (False, True), (False, False)])
def test_only_the_gradients_that_are_needed(needed):
    x, weight = (torch.randn(*size, requires_grad=need) for size, need in zip(((3, 2), (4, 2)), needed, strict=True))
    total = linear_cross_entropy(x, weight, None, torch.tensor([0, 3, 1]), 0.0)
    assert total.requires_grad == any(needed)
    if any(needed):
        total.backward()
    assert (x.grad is not None, weight.grad is not None) == needed


def test_large_logits_do_not_overflow():
    x = torch.full((2, 1), 1e4, requires_grad=True)
    total = linear_cross_entropy(x, torch.tensor([[1.0], [-1.0]]), None, torch.tensor([0, 0]), 0.0)
    total.backward()
    assert total == 0 and x.grad.isfinite().all()


@pytest.mark.parametrize("biased", [True, False])
def test_a_readout_gives_logits_and_their_loss(biased):
    layer = Readout(3, 7, bias=biased)
    features, labels = torch.randn(5, 3), torch.randint(0, 7, (5,))
    expected = cross_entropy(layer(features), labels, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(layer.loss(features, labels, smoothing=0.1), expected)
    assert set(layer.state_dict()) == ({"weight", "bias"} if biased else {"weight"})
