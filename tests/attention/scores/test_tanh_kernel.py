"""Blocks of tanh scores equal the plain formula, forward and backward, for small and large inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.scores import _tanh_kernel
from regard.attention.scores._tanh_kernel import tanh_scores


def plain(a, c, weight):
    return torch.tanh(a[..., :, None, :] + c[..., None, :, :]) @ weight


def leaves(b, h, t, s, *, d=3, size=1.0, dtype=torch.float64):
    a, c, weight = (torch.randn(shape, dtype=dtype) * size for shape in ((b, t, h, d), (b, s, h, d), (d,)))
    return [x.requires_grad_() for x in (a.transpose(1, 2), c.transpose(1, 2), weight)]  # the memory layout of heads


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    st.sampled_from([1, 30, 100, 1000]),
    st.sampled_from([0.1, 1.0, 30.0]),
    st.sampled_from([0, 32]),
)
def test_blocks_equal_the_formula(shape, block, size, max_loop_rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tanh_kernel, "BLOCK_ELEMENTS", block)
        patch.setattr(_tanh_kernel, "MAX_LOOP_ROWS", max_loop_rows)
        inputs = leaves(*shape, size=size)
        apply = _tanh_kernel._TanhScores.apply
        result, expected = apply(*inputs), plain(*inputs)
    torch.testing.assert_close(result, expected)
    grad = torch.randn_like(expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tanh_kernel, "BLOCK_ELEMENTS", block)
        patch.setattr(_tanh_kernel, "MAX_LOOP_ROWS", max_loop_rows)
        gradients = torch.autograd.grad(result, inputs, grad)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, inputs, grad))


def test_plain_and_block_kernels_agree_in_float32(monkeypatch):
    inputs = leaves(1, 2, 5, 6, d=8, dtype=torch.float32)
    plain_scores = tanh_scores(*inputs)
    monkeypatch.setattr(_tanh_kernel, "BLOCK_ELEMENTS", 10)
    monkeypatch.setattr(_tanh_kernel, "MAX_PLAIN_ELEMENTS", 0)
    block_scores = tanh_scores(*inputs)
    torch.testing.assert_close(block_scores, plain_scores, atol=1e-5, rtol=1e-5)


def test_large_and_opposite_features_do_not_overflow(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "MAX_PLAIN_ELEMENTS", 0)
    a = torch.tensor([100.0, -100.0, 15.0]).view(1, 1, 3, 1)
    assert tanh_scores(a, -a, torch.ones(1)).diagonal(dim1=-2, dim2=-1).eq(0).all()
    a = a.clamp(-19, 19)
    assert tanh_scores(a, a, torch.ones(1)).isfinite().all()


def test_gradcheck(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "MAX_PLAIN_ELEMENTS", 0)
    monkeypatch.setattr(_tanh_kernel, "BLOCK_ELEMENTS", 12)
    assert torch.autograd.gradcheck(tanh_scores, leaves(1, 2, 3, 4))


def test_half_precision_uses_tanh(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "MAX_PLAIN_ELEMENTS", 0)
    inputs = leaves(1, 2, 5, 6, d=8, dtype=torch.bfloat16)
    assert tanh_scores(*inputs).equal(plain(*inputs))
