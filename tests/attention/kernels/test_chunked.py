"""Chunked attention equals attention in one piece, forward and backward, in bounded memory."""

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
    """Return output and gradients with chunks of this size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked, "CHUNK_ELEMENTS", size)
        leaves = [x.clone().requires_grad_() for x in tensors]
        q, k, v = leaves
        output = attend(q, attend.project(k), v, mask)
        return output, torch.autograd.grad(output.square().sum(), [*leaves, *attend.parameters()])


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 200), st.booleans(), st.integers(0, 2**32))
def test_chunked_equals_one_piece(t, s, size, causal, seed):
    torch.manual_seed(seed)
    attend = Attend(scores.build("concat", 3)).double()
    tensors = [torch.randn(2, 2, n, 3, dtype=torch.float64) for n in (t, s, s)]
    mask = Mask.explicit(torch.rand(2, 1, t, s) < 0.7) & (Mask.causal() if causal else Mask())
    torch.testing.assert_close(run(size, attend, tensors, mask), run(2**22, attend, tensors, mask))


def test_backward_pass_drops_the_same_weights(monkeypatch):
    """The output is linear in the values: it is their inner product with the gradient if both drop the same weights."""
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 40)
    attend = Attend(scores.build("concat", 3), dropout=0.5).train()
    q, k, v = (torch.randn(1, 2, 8, 3) for _ in range(3))
    v.requires_grad_()
    total = attend(q, attend.project(k), v).sum()
    (gradient,) = torch.autograd.grad(total, v)
    torch.testing.assert_close((gradient * v).sum(), total)


def test_chunk_sizes_are_bounded(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 1000)
    attend, sizes = Attend(scores.build("concat", 4)), []
    attend.weigh.register_forward_hook(lambda module, inputs, weights: sizes.append(weights.numel()))
    q = torch.randn(1, 2, 60, 4)
    attend(q, attend.project(q), q, Mask.causal())
    assert len(sizes) > 5 and max(sizes) <= 1000
    assert sum(sizes) < 0.6 * 2 * 60 * 60  # keys after the chunk are not scored


def test_more_elements_per_pair_give_fewer_queries_per_chunk():
    q = torch.randn(2, 4, 100, 8)
    assert chunked.queries_per_chunk(q, 50, 8) == chunked.queries_per_chunk(q, 50, 1) // 8 > 0


def test_a_query_larger_than_a_chunk_is_computed(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 1)
    attend = Attend(scores.build("concat", 4))
    q = torch.randn(1, 1, 3, 4)
    assert attend(q, attend.project(q), q).isfinite().all()
