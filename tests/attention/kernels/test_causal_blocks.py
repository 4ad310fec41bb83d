"""Causal attention in blocks of queries: the same as the fused kernel, forward and backward, at every length."""

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
def wide(monkeypatch):
    """A processor of wide vectors."""
    monkeypatch.setattr(short_keys, "WIDE", True)


def made(length, width=8, value=6):
    shapes = ((2, 3, length, width), (2, 3, length, width), (2, 3, length, value))
    return [torch.randn(shape, dtype=torch.float64).transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
            for shape in shapes]  # fmt: skip  # heads inside, as layers have them


@pytest.mark.parametrize("length", [1, 5, BLOCK_QUERIES, BLOCK_QUERIES + 1, 2 * BLOCK_QUERIES, 2 * BLOCK_QUERIES + 7])
def test_it_is_the_fused_kernel(length):
    q, k, v = made(length)
    ours, theirs = (
        attend_causal_blocks(Dot(q, k, 0.3), v),
        scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
    )
    torch.testing.assert_close(ours, theirs)
    grad = torch.randn_like(ours)
    for one, other in zip(*(torch.autograd.grad(out, (q, k, v), grad) for out in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)


def test_second_derivatives():
    q, k, v = made(5, width=2, value=2)
    assert torch.autograd.gradgradcheck(lambda *x: attend_causal_blocks(Dot(x[0], x[1], 0.5), x[2]), (q, k, v))


def test_without_wide_vectors_the_fused_kernel_is_faster(monkeypatch):
    monkeypatch.setattr(short_keys, "WIDE", False)
    x = torch.randn(1, 1, 100, 64, requires_grad=True)
    assert not use_causal_blocks(x, x)


def test_where_it_is_used(wide):
    def fits(length, width=64, **how):
        x = torch.randn(1, 1, length, width, requires_grad=True, **how)
        return use_causal_blocks(x, x)

    assert fits(BLOCK_QUERIES + 1) and fits(4 * 32, 32) and fits(100, dtype=torch.float64)
    assert not fits(BLOCK_QUERIES) and not fits(MAX_KEYS + 1, 1024) and not fits(4 * 32 + 1, 32)
    assert not fits(100, dtype=torch.bfloat16)
    with torch.no_grad():
        assert not fits(100)


@pytest.mark.parametrize("place", [None, "rotary"])
def test_attend_gives_the_same_with_and_without_gradients(wide, place):
    from regard.layers import positions

    at = None if place is None else positions.build(place, 32, max_length=200).position_bias(heads=2, dim=32)
    attend = Attend(scores.build("scaled_dot", 32), position_bias=at)
    q, k, v = (torch.randn(2, 2, 100, 32, requires_grad=True) for _ in range(3))
    assert use_causal_blocks(q, k)
    learned = attend(q, k, v, Mask.causal())
    with torch.no_grad():
        torch.testing.assert_close(learned.detach(), attend(q, k, v, Mask.causal()))
