"""The fused kernel: outputs and first derivatives as in PyTorch, second derivatives as in the definition."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from regard.attention.functional import attend
from regard.attention.kernels import causal_blocks, short_keys
from regard.attention.kernels.fused import attend_scaled_dot
from regard.attention.masks import Mask
from regard.attention.score import Dot

MASKS = {
    "none": lambda n: Mask(),
    "causal": lambda n: Mask.causal(),
    "lengths": lambda n: Mask.lengths(torch.tensor([n - 1, 0]), n),
    "local": lambda n: Mask.causal() & Mask.local(4),
    "per head": lambda n: Mask.explicit(torch.ones(2, 3, n, n).tril() > 0),
}


def definition(q, k, v, mask):
    scores, allowed = q @ k.mT / q.shape[-1] ** 0.5, mask.dense(q.shape[2], k.shape[2])
    if allowed is None:
        return scores.softmax(dim=-1) @ v
    empty = ~allowed.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(allowed | empty), -torch.inf).softmax(dim=-1).masked_fill(empty, 0.0) @ v


@pytest.mark.parametrize("n", [4, 66, 130])
@pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("avx512", [True, False])
def test_second_derivatives(make_mask, n, avx512, monkeypatch):
    monkeypatch.setattr(short_keys, "HAS_AVX512", avx512)
    assert causal_blocks.short_keys is short_keys
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.double, requires_grad=True) for _ in range(3))
    results, mask = [], make_mask(n)
    for output in (attend(q, k, v, mask=mask), definition(q, k, v, mask)):
        first = torch.autograd.grad(output.square().sum(), (q, k, v), create_graph=True)
        second = torch.autograd.grad(sum(gradient.square().sum() for gradient in first), (q, k, v))
        results.append((output, *first, *second))
    torch.testing.assert_close(results[0], results[1])


def test_one_derivative_takes_the_kernels_of_pytorch():
    q, k, v = (torch.randn(1, 2, 100, 8, requires_grad=True) for _ in range(3))
    allowed = torch.rand(1, 1, 100, 100) < 0.5
    for settings in ({}, {"is_causal": True}, {"allowed": allowed}):
        options = {"attn_mask" if name == "allowed" else name: value for name, value in settings.items()}
        expected = scaled_dot_product_attention(q, k, v, scale=0.3, **options)
        output = attend_scaled_dot(Dot(q, k, 0.3), v, **settings)
        assert output.equal(expected)
        for gradient, reference in zip(
            torch.autograd.grad(output.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v)), strict=True
        ):
            assert gradient.equal(reference)


def test_tensors_without_values():
    with torch._subclasses.fake_tensor.FakeTensorMode():
        x, lengths = torch.ones(2, 2, 9, 4), torch.ones(2, dtype=torch.long)
        for score in ("scaled_dot", "cosine"):
            assert attend(x, x, x, score=score, mask=Mask.lengths(lengths, 9)).shape == (2, 2, 9, 4)
    x = torch.ones(2, 2, 9, 4, device="meta")
    for mask in (Mask(), Mask.causal(), Mask.local(2, 1), Mask.lengths(torch.ones(2, device="meta").long(), 9)):
        assert attend(x, x, x, mask=mask).shape == x.shape
