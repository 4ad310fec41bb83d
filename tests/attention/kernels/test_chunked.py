"""Chunks give what the whole gives, forward and gradient, and hold no more than they should."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.kernels import chunked
from regard.attention.masks import Mask


def run(size, attend, tensors, mask):
    """Output and gradients with chunks of a size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked, "CHUNK", size)
        leaves = [x.clone().requires_grad_() for x in tensors]
        q, k, v = leaves
        mixed = attend(q, attend.project(k), v, mask)
        return mixed, torch.autograd.grad(mixed.square().sum(), [*leaves, *attend.parameters()])


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 200), st.booleans(), st.integers(0, 2**32))
def test_chunked_is_whole(t, s, size, causal, seed):
    torch.manual_seed(seed)
    attend = Attend(scores.build("concat", 3)).double()
    tensors = [torch.randn(2, 2, n, 3, dtype=torch.float64) for n in (t, s, s)]
    mask = Mask.explicit(torch.rand(2, 1, t, s) < 0.7) & (Mask.causal() if causal else Mask())
    torch.testing.assert_close(run(size, attend, tensors, mask), run(2**22, attend, tensors, mask))


def test_dropout_in_chunks_uses_the_same_weights_backward(monkeypatch):
    """Linear in the values: the output is the gradient's inner product with them, if both drop the same weights."""
    monkeypatch.setattr(chunked, "CHUNK", 40)
    attend = Attend(scores.build("concat", 3), dropout=0.5).train()
    q, k, v = (torch.randn(1, 2, 8, 3) for _ in range(3))
    v.requires_grad_()
    total = attend(q, attend.project(k), v).sum()
    (gradient,) = torch.autograd.grad(total, v)
    torch.testing.assert_close((gradient * v).sum(), total)


def test_no_chunk_is_larger_than_it_should_be(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK", 1000)
    attend, sizes = Attend(scores.build("concat", 4)), []
    attend.weigh.register_forward_hook(lambda module, inputs, weights: sizes.append(weights.numel()))
    q = torch.randn(1, 2, 60, 4)
    attend(q, attend.project(q), q, Mask.causal())
    assert len(sizes) > 5 and max(sizes) <= 1000
    assert sum(sizes) < 0.6 * 2 * 60 * 60  # keys ahead are not scored at all


def test_a_score_that_holds_much_per_pair_gets_fewer_rows():
    q = torch.randn(2, 4, 100, 8)
    assert chunked.queries_per_chunk(q, 50, 8) == chunked.queries_per_chunk(q, 50, 1) // 8 > 0


def test_even_one_row_too_large_is_computed(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK", 1)
    attend = Attend(scores.build("concat", 4))
    q = torch.randn(1, 1, 3, 4)
    assert attend(q, attend.project(q), q).isfinite().all()
