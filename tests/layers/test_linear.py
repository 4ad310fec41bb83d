"""Large products by oneDNN equal nn.Linear in values and gradients; small ones use nn.Linear."""

import pytest
import torch
from torch import nn

from regard.layers import linear
from regard.layers.linear import Linear, has_avx512, linear_one_dnn, use_one_dnn

needs_one_dnn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")


@pytest.fixture
def always_onednn(monkeypatch):
    """Use oneDNN for every product."""
    monkeypatch.setattr(linear, "MIN_ONEDNN_WORK", 1)
    monkeypatch.setattr(linear, "has_avx512", lambda: True)


def layer_and_reference(*, bias):
    torch.manual_seed(0)
    layer = Linear(12, 20, bias=bias)
    reference = nn.Linear(12, 20, bias=bias)
    reference.load_state_dict(layer.state_dict())
    return layer, reference


@needs_one_dnn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 12), (2, 5, 12), (1, 12)])
def test_values_and_gradients_equal_linear(always_onednn, monkeypatch, shape, bias):
    calls = []
    monkeypatch.setattr(linear, "linear_one_dnn", lambda *args: calls.append(1) or linear_one_dnn(*args))
    onednn_layer, reference = layer_and_reference(bias=bias)
    x, weights = torch.randn(shape), torch.randn(*shape[:-1], 20)
    results = []
    for layer in (onednn_layer, reference):
        leaf = x.clone().requires_grad_()
        output = layer(leaf)
        (output * weights).sum().backward()
        results.append([output.detach(), leaf.grad, *(parameter.grad for parameter in layer.parameters())])
    assert len(calls) == 2  # forward and backward
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@needs_one_dnn
def test_only_needed_gradients_are_computed(always_onednn):
    layer, _ = layer_and_reference(bias=True)
    layer.weight.requires_grad_(False)
    x = torch.randn(3, 12, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None and layer.bias.grad is not None and x.grad is not None


def test_small_products_use_linear(monkeypatch):
    monkeypatch.setattr(linear, "has_avx512", lambda: True)
    layer, reference = layer_and_reference(bias=True)
    x = torch.randn(4, 12)
    assert not use_one_dnn(x, layer.weight)
    assert torch.equal(layer(x), reference(x))


def test_inputs_that_onednn_does_not_support(always_onednn):
    weight = nn.Parameter(torch.randn(20, 12))
    assert use_one_dnn(torch.randn(3, 12), weight)
    assert not use_one_dnn(torch.randn(3, 12).double(), weight.detach().double())
    assert not use_one_dnn(torch.randn(3, 12), weight.detach().bfloat16())
    assert not use_one_dnn(torch.empty(3, 12, device="meta"), weight)
    assert not use_one_dnn(torch.randn(0, 12), weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert not use_one_dnn(torch.randn(3, 12), weight)


def test_without_avx512_onednn_is_not_used(monkeypatch):
    monkeypatch.setattr(linear, "MIN_ONEDNN_WORK", 1)
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
