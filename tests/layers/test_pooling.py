"""Attention pooling equals the formula of the paper."""

import torch

from regard.attention.masks import Mask
from regard.attention.record import record
from regard.layers.pooling import AttentionPooling


def test_the_formula_of_the_paper():
    pool = AttentionPooling(6, 4)
    x = torch.randn(3, 5, 6)
    u = torch.tanh(x @ pool.hidden.weight.mT + pool.hidden.bias)
    weights = (u @ pool.query).softmax(dim=-1)
    torch.testing.assert_close(pool(x), (weights[..., None] * x).sum(dim=1))
    with record(pool) as maps:
        pool(x)
    (recorded,) = maps.values()
    torch.testing.assert_close(recorded.weights[:, 0, 0], weights)
    assert (recorded.queries, recorded.keys) == ("label", "words")


def test_padding_has_no_effect_and_an_empty_row_is_zero():
    pool = AttentionPooling(6, 4)
    x = torch.randn(2, 3, 6)
    wide = torch.cat([x, torch.full((2, 4, 6), 1e6)], dim=1)
    mask = Mask.lengths(torch.tensor([3, 0]), 7)
    pooled = pool(wide, mask)
    torch.testing.assert_close(pooled[0], pool(x)[0])
    assert pooled[1].eq(0).all()
    pooled.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in pool.parameters())


def test_keys_may_be_projected_in_advance():
    pool = AttentionPooling(6, 4, score="general")
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(pool(x, projected=pool.project(x)), pool(x))
