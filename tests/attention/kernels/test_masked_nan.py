"""Masked keys do not affect outputs or gradients, even if they contain NaN or infinity, in any kernel."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.functional import attend as attend_once
from regard.attention.kernels.masked_nan import (
    _possibly_visible_keys,
    _visible_keys,
    is_finite,
    may_hide_keys,
    zero_hidden_keys,
)
from regard.attention.masks import Mask
from regard.core.errors import DataError
from regard.layers.positions.relative import Relative

HIDING_MASKS = {
    "lengths": lambda n: Mask.lengths(torch.tensor([n, 3]), n),
    "start": lambda n: Mask.left_padded(torch.tensor([0, n - 3])),
    "pairs": lambda n: Mask.explicit(torch.arange(n).expand(n, n) < 3),
}


def fill_hidden(x, mask, *, value):
    visible, _ = zero_hidden_keys(torch.ones_like(x), x, mask, x.shape[2])
    return torch.where(visible > 0, x, value)


@pytest.mark.parametrize("n", [6, 80])  # the short kernel, and the fused one
@pytest.mark.parametrize("make_mask", HIDING_MASKS.values(), ids=HIDING_MASKS)
@pytest.mark.parametrize("name", ["scaled_dot", "cosine", "additive"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("both", [True, False], ids=["keys and values", "only keys"])
def test_padding_may_hold_anything(name, make_mask, n, value, both):
    attend, mask = Attend(scores.build(name, 4)), make_mask(n)
    q, k, v = (torch.randn(2, 1, n, 4) for _ in range(3))
    results = []
    for fill in (0.0, value):
        values = fill_hidden(v, mask, value=fill if both else 0.0)
        leaves = [x.clone().requires_grad_() for x in (q, fill_hidden(k, mask, value=fill), values)]
        output = attend(leaves[0], attend.project(leaves[1]), leaves[2], mask)
        gradients = torch.autograd.grad(output.square().sum(), [leaves[0], *attend.parameters()])
        results.append([output, *gradients])
    assert results[1][0].isfinite().all()
    torch.testing.assert_close(
        results[1][:2], results[0][:2]
    )  # without the score's weights, which multiply the padding


def test_the_function_ignores_hidden_keys_and_names_visible_ones():
    q, k, v = (torch.randn(2, 1, 6, 4) for _ in range(3))
    mask = HIDING_MASKS["lengths"](6)
    clean = attend_once(q, k, v, mask=mask)
    k[1, :, 4], v[1, :, 3] = torch.nan, torch.inf
    torch.testing.assert_close(attend_once(q, k, v, mask=mask), clean)
    v[0, 0, 0, 0] = torch.nan
    with pytest.raises(DataError, match=r"^attend: key contains NaN or infinity; check for a division by zero before"):
        attend_once(q, k, v, mask=mask)


def test_values_that_cannot_be_inspected_are_not_assumed_finite():
    assert is_finite(torch.ones(2)) and not is_finite(torch.tensor([1.0, torch.nan]))
    assert not torch.vmap(lambda x: torch.ones(()) * is_finite(x))(torch.ones(2, 2)).any()
    local = Mask.causal() & Mask.local(2)
    assert not may_hide_keys(local, 6, 6) and may_hide_keys(local, 3, 6) and not may_hide_keys(Mask.causal(), 3, 6)
    assert all(may_hide_keys(make(6), 6, 6) for make in HIDING_MASKS.values())


def test_position_biases_ignore_hidden_keys():
    mask, bias = HIDING_MASKS["lengths"](6), Relative(1, 4, max_distance=3)
    attend = Attend(scores.build("scaled_dot", 4), position_bias=bias)
    q, k, v = (torch.randn(2, 1, 6, 4) for _ in range(3))
    q.requires_grad_()
    k[1, :, 3:] = torch.nan
    (gradient,) = torch.autograd.grad(attend(q, attend.project(k), v, mask).square().sum(), q)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "cosine", "general", "additive", "concat"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_hidden_keys_leave_no_trace_in_any_gradient(name, value):
    q, k, v = (torch.randn(1, 1, 4, 8) for _ in range(3))
    k[:, :, 3] = value
    score, inputs = scores.build(name, 8), [x.requires_grad_() for x in (q, k, v)]
    if any(weight.dim() for weight in score.parameters()) or name == "cosine":
        inputs += list(score.parameters())
    output = attend_once(q, k, v, score=score, mask=Mask.lengths(torch.tensor([3]), 4))
    for gradient in torch.autograd.grad(output.square().sum(), inputs):
        assert gradient.isfinite().all()


LOCAL_MASKS = [
    Mask.local(2, 0), Mask.causal() & Mask.local(3), Mask.block(2, 1), Mask.local(1, 1) & Mask.causal(),
    Mask.image(2, 5, query=(1, 2), memory=(0, 1)) & Mask.causal(),
    Mask.causal() & Mask.explicit(torch.arange(10) - torch.arange(7, 10)[:, None] > -3),
]  # fmt: skip


@pytest.mark.parametrize("mask", LOCAL_MASKS)
@pytest.mark.parametrize("name", ["scaled_dot", "cosine"])
def test_keys_beyond_the_reach_of_all_queries_may_hold_anything(name, mask):
    q, k, v = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 10, 4), torch.randn(1, 1, 10, 4)
    visible = mask.dense(3, 10).expand(1, 1, 3, 10).any(dim=-2)[..., None]
    assert not visible.all()
    expected = attend_once(q, k, v, score=name, mask=mask)
    hidden = [torch.where(visible, x, torch.nan) for x in (k, v)]
    torch.testing.assert_close(attend_once(q, *hidden, score=name, mask=mask), expected)


def test_the_keys_that_a_program_hides_are_never_visible():
    """Without values only a part of the hidden keys is found; for windows and blocks it is all of them."""
    for mask in LOCAL_MASKS:
        exact = _visible_keys(mask, 3, 10)
        possible = _possibly_visible_keys(mask, 3, 10, torch.device("cpu"))
        assert (exact <= possible).all()
    for mask in LOCAL_MASKS[:3]:
        assert _visible_keys(mask, 3, 10).equal(_possibly_visible_keys(mask, 3, 10, torch.device("cpu")))
