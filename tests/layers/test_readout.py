"""The chunked loss equals PyTorch's cross entropy of a linear layer, in value and gradient, at every chunk boundary."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.layers import readout
from regard.layers.readout import MultiLabelReadout, Readout, linear_cross_entropy, make_readout


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [True, False])
def test_equals_linear_and_cross_entropy(n, smoothing, biased, monkeypatch):
    monkeypatch.setattr(readout, "MIN_CHUNK_ROWS", 4)
    monkeypatch.setattr(readout, "MAX_CHUNK_LOGITS", 4)
    x, weight, bias = (torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((n, 3), (7, 3), (7,)))
    labels = torch.randint(0, 7, (n,))
    leaves = [x, weight, bias] if biased else [x, weight]
    actual = linear_cross_entropy(x, weight, bias if biased else None, labels, smoothing)
    logits = x @ weight.mT + (bias if biased else 0)
    expected = cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(torch.autograd.grad(3 * actual, leaves), torch.autograd.grad(3 * expected, leaves))


def test_gradcheck(monkeypatch):
    monkeypatch.setattr(readout, "MIN_CHUNK_ROWS", 2)
    monkeypatch.setattr(readout, "MAX_CHUNK_LOGITS", 2)
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


def test_make_readout():
    assert isinstance(make_readout(4, 3, multi_label=False), Readout)
    assert isinstance(make_readout(4, 3, multi_label=True), MultiLabelReadout)


def test_the_multi_label_loss_is_the_log_probability_of_all_labels():
    layer = MultiLabelReadout(4, 3)
    x, labels = torch.randn(5, 4), torch.randint(0, 2, (5, 3))
    p = torch.sigmoid(layer(x))
    expected = -torch.where(labels == 1, p, 1 - p).log().sum()
    torch.testing.assert_close(layer.loss(x, labels), expected)
    assert layer.loss(x, labels, smoothing=0.2) != expected
