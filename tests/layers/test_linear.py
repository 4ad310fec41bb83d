"""Large products by oneDNN: the numbers and gradients of nn.Linear, and nn.Linear itself where that is better."""

import pytest
import torch
from torch import nn

from regard.layers import linear
from regard.layers.linear import Linear, has_avx512, linear_one_dnn, use_one_dnn

needs_one_dnn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")


@pytest.fixture
def everything(monkeypatch):
    """Every product is large, on a processor with wide vectors."""
    monkeypatch.setattr(linear, "LARGE", 1)
    monkeypatch.setattr(linear, "has_wide_vectors", lambda: True)


def twins(*, bias):
    torch.manual_seed(0)
    ours = Linear(12, 20, bias=bias)
    theirs = nn.Linear(12, 20, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@needs_one_dnn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 12), (2, 5, 12), (1, 12)])
def test_numbers_and_gradients_are_those_of_linear(everything, monkeypatch, shape, bias):
    made_by_us = []
    monkeypatch.setattr(linear, "one_dnn", lambda *given: made_by_us.append(1) or linear_one_dnn(*given))
    ours, theirs = twins(bias=bias)
    x, weights = torch.randn(shape), torch.randn(*shape[:-1], 20)
    found = []
    for layer in (ours, theirs):
        given = x.clone().requires_grad_()
        made = layer(given)
        (made * weights).sum().backward()
        found.append([made.detach(), given.grad, *(parameter.grad for parameter in layer.parameters())])
    assert len(made_by_us) == 2  # forward and back
    for mine, expected in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-5)


@needs_one_dnn
def test_only_gradients_that_are_wanted_are_made(everything):
    layer, _ = twins(bias=True)
    layer.weight.requires_grad_(False)
    x = torch.randn(3, 12, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None and layer.bias.grad is not None and x.grad is not None


def test_small_products_are_linears_own(monkeypatch):
    monkeypatch.setattr(linear, "has_wide_vectors", lambda: True)
    ours, theirs = twins(bias=True)
    x = torch.randn(4, 12)
    assert not use_one_dnn(x, ours.weight)
    assert torch.equal(ours(x), theirs(x))


def test_what_one_dnn_is_not_asked_for(everything):
    weight = nn.Parameter(torch.randn(20, 12))
    assert use_one_dnn(torch.randn(3, 12), weight)
    assert not use_one_dnn(torch.randn(3, 12).double(), weight.detach().double())
    assert not use_one_dnn(torch.randn(3, 12), weight.detach().bfloat16())
    assert not use_one_dnn(torch.empty(3, 12, device="meta"), weight)
    assert not use_one_dnn(torch.randn(0, 12), weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert not use_one_dnn(torch.randn(3, 12), weight)


def test_without_wide_vectors_nothing_is_large(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 1)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not has_avx512()
    assert not use_one_dnn(torch.randn(3, 12), torch.randn(20, 12))


@needs_one_dnn
def test_a_packed_weight_gives_the_same_product():
    x, weight, bias = torch.randn(5, 12), torch.randn(20, 12), torch.randn(20)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    expected = nn.functional.linear(x, weight, bias)
    torch.testing.assert_close(linear_one_dnn(x, weight, bias), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(linear_one_dnn(x, packed, bias), expected, rtol=1e-5, atol=1e-5)
