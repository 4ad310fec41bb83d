"""Causal attention in blocks of queries equals the fused kernel, forward and backward, at every length."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.kernels import short_keys
from regard.attention.kernels.causal_blocks import BLOCK_QUERIES, MAX_KEYS, attend_causal_blocks, use_causal_blocks
from regard.attention.masks import Mask
from regard.attention.score import Dot


@pytest.fixture
def avx512(monkeypatch):
    """Pretend that the CPU has AVX-512."""
    monkeypatch.setattr(short_keys, "HAS_AVX512", True)


def inputs(length, dim=8, value_dim=6):
    shapes = ((2, 3, length, dim), (2, 3, length, dim), (2, 3, length, value_dim))
    return [torch.randn(shape, dtype=torch.float64).transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
            for shape in shapes]  # fmt: skip  # the memory layout of heads


@pytest.mark.parametrize("length", [1, 5, BLOCK_QUERIES, BLOCK_QUERIES + 1, 2 * BLOCK_QUERIES, 2 * BLOCK_QUERIES + 7])
def test_output_and_gradient_equal_the_fused_kernel(length):
    q, k, v = inputs(length)
    blocks = attend_causal_blocks(Dot(q, k, 0.3), v)
    fused = scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    torch.testing.assert_close(blocks, fused)
    grad = torch.randn_like(fused)
    torch.testing.assert_close(*(torch.autograd.grad(output, (q, k, v), grad) for output in (blocks, fused)))


def test_second_derivatives():
    q, k, v = inputs(5, dim=2, value_dim=2)
    assert torch.autograd.gradgradcheck(lambda *x: attend_causal_blocks(Dot(x[0], x[1], 0.5), x[2]), (q, k, v))


def test_without_avx512_the_fused_kernel_is_used(monkeypatch):
    monkeypatch.setattr(short_keys, "HAS_AVX512", False)
    x = torch.randn(1, 1, 100, 64, requires_grad=True)
    assert not use_causal_blocks(x, x)


def test_conditions_for_the_kernel(avx512):
    def fits(length, dim=64, **settings):
        x = torch.randn(1, 1, length, dim, requires_grad=True, **settings)
        return use_causal_blocks(x, x)

    assert fits(BLOCK_QUERIES + 1) and fits(4 * 32, 32) and fits(100, dtype=torch.float64)
    assert not fits(BLOCK_QUERIES) and not fits(MAX_KEYS + 1, 1024) and not fits(4 * 32 + 1, 32)
    assert not fits(100, dtype=torch.bfloat16)
    with torch.no_grad():
        assert not fits(100)


@pytest.mark.parametrize("position", [None, "rotary"])
def test_attend_gives_the_same_with_and_without_gradients(avx512, position):
    from regard.layers import positions

    bias = None if position is None else positions.build(position, 32, max_length=200).position_bias(heads=2, dim=32)
    attend = Attend(scores.build("scaled_dot", 32), position_bias=bias)
    q, k, v = (torch.randn(2, 2, 100, 32, requires_grad=True) for _ in range(3))
    assert use_causal_blocks(q, k)
    output = attend(q, k, v, Mask.causal())
    with torch.no_grad():
        torch.testing.assert_close(output.detach(), attend(q, k, v, Mask.causal()))
