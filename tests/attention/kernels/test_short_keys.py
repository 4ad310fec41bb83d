"""Attention over few keys equals the fused kernel, with any padding."""

import pytest
import torch

from regard.attention.kernels import short_keys
from regard.attention.masks import Mask
from regard.attention.score import Dot


@pytest.mark.parametrize(("length", "padded"), [(0, 16), (1, 16), (16, 16), (17, 24), (24, 24), (100, 104)])
def test_lengths_are_padded_to_full_vectors(length, padded):
    assert short_keys.padded_length(length) == padded


def test_the_bias_of_a_mask_of_keys():
    hidden = -torch.inf
    plain = short_keys.key_bias(Mask.causal(), 1, 3, 5, 2)  # one query attends to all cached keys
    assert plain.tolist() == [[[0, 0, 0, hidden, hidden]]]
    padded = short_keys.key_bias(Mask.lengths(torch.tensor([1, 2])), 4, 2, 3, 2)
    assert padded.tolist() == 2 * [[[0, hidden, hidden]]] + 2 * [[[0, 0, hidden]]]
    late = short_keys.key_bias(Mask.left_padded(torch.tensor([0, 1])), 1, 2, 3, 1)
    assert late.tolist() == [[[0, 0, hidden]], [[hidden, 0, hidden]]]


@pytest.mark.parametrize(
    "mask",
    [Mask.local(back=3), Mask.block(2, 1), Mask.explicit(torch.ones(1, 3) > 0), Mask.lengths(torch.tensor([0, 3]))],
)
def test_masks_without_a_bias_of_keys(mask):
    assert short_keys.key_bias(mask, 1, 3, 16, 2) is None
    assert short_keys.key_bias(Mask.causal(), 2, 3, 16, 2) is None
    assert short_keys.key_bias(Mask(), 1, 0, 16, 2) is None


@pytest.mark.parametrize(("t", "s"), [(1, 1), (1, 15), (5, 5), (7, 16), (16, 16), (3, 33)])
@pytest.mark.parametrize("mask", [Mask(), Mask.causal(), Mask.local(back=20)])
def test_output_and_gradient_equal_the_fused_kernel(t, s, mask):
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, size, 4, dtype=torch.float64, requires_grad=True) for size in (t, s, s)]
    allowed = mask.dense(t, s)
    q, k, v = inputs
    output = short_keys.attend_short(Dot(q, k, 0.3), v, allowed)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=0.3)
    torch.testing.assert_close(output, expected)
    grad = torch.randn_like(output)
    torch.testing.assert_close(torch.autograd.grad(output, inputs, grad), torch.autograd.grad(expected, inputs, grad))


def test_short_lengths_use_the_kernel(monkeypatch):
    monkeypatch.setattr(short_keys, "HAS_AVX512", True)
    few, many = torch.zeros(1, 1, short_keys.MAX_SHORT_LENGTH, 4), torch.zeros(1, 1, short_keys.MAX_SHORT_LENGTH + 1, 4)
    assert short_keys.use_short_kernel(few, few)
    assert (
        not short_keys.use_short_kernel(few, many)
        and not short_keys.use_short_kernel(many, few)
        and not short_keys.use_short_kernel(few, few[:, :, :0])
    )


def test_without_avx512_the_fused_kernel_is_used(monkeypatch):
    monkeypatch.setattr(short_keys, "HAS_AVX512", False)
    few = torch.zeros(1, 1, 8, 4)
    assert not short_keys.use_short_kernel(few, few)
