"""Blocks of tanh scores equal the plain formula, forward and gradient, near and far, in bounded memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.scores import _tanh_kernel
from regard.attention.scores._tanh_kernel import tanh_scores


def plain(a, c, weight):
    return torch.tanh(a[..., :, None, :] + c[..., None, :, :]) @ weight


def leaves(b, h, t, s, *, d=3, far=1.0, dtype=torch.float64):
    a, c, weight = (torch.randn(shape, dtype=dtype) * far for shape in ((b, t, h, d), (b, s, h, d), (d,)))
    return [x.requires_grad_() for x in (a.transpose(1, 2), c.transpose(1, 2), weight)]  # laid out as heads are


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    st.sampled_from([1, 30, 100, 1000]),
    st.sampled_from([0.1, 1.0, 30.0]),
    st.sampled_from([0, 32]),
)
def test_blocks_are_the_formula(shape, block, far, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tanh_kernel, "BLOCK", block)
        patch.setattr(_tanh_kernel, "FEW", few)
        given_ = leaves(*shape, far=far)
        apply = _tanh_kernel._TanhScores.apply
        found, expected = apply(*given_), plain(*given_)
    torch.testing.assert_close(found, expected)
    change = torch.randn_like(expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tanh_kernel, "BLOCK", block)
        patch.setattr(_tanh_kernel, "FEW", few)
        gradients = torch.autograd.grad(found, given_, change)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, given_, change))


def test_small_and_large_agree_in_float32(monkeypatch):
    given_ = leaves(1, 2, 5, 6, d=8, dtype=torch.float32)
    small = tanh_scores(*given_)
    monkeypatch.setattr(_tanh_kernel, "BLOCK", 10)
    monkeypatch.setattr(_tanh_kernel, "SMALL", 0)
    large = tanh_scores(*given_)
    torch.testing.assert_close(large, small, atol=1e-5, rtol=1e-5)


def test_opposite_and_far_features_do_not_overflow(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "SMALL", 0)
    a = torch.tensor([100.0, -100.0, 15.0]).view(1, 1, 3, 1)
    assert tanh_scores(a, -a, torch.ones(1)).diagonal(dim1=-2, dim2=-1).eq(0).all()
    a = a.clamp(-19, 19)
    assert tanh_scores(a, a, torch.ones(1)).isfinite().all()


def test_gradcheck(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "SMALL", 0)
    monkeypatch.setattr(_tanh_kernel, "BLOCK", 12)
    assert torch.autograd.gradcheck(tanh_scores, leaves(1, 2, 3, 4))


def test_half_precision_is_left_to_tanh(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "SMALL", 0)
    given_ = leaves(1, 2, 5, 6, d=8, dtype=torch.bfloat16)
    assert tanh_scores(*given_).equal(plain(*given_))
