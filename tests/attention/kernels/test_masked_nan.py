"""What nobody may look at leaves no trace, whatever it holds: in values, in gradients, on every path."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.functional import attend as attend_once
from regard.attention.kernels.masked_nan import is_finite, may_hide_keys, zero_hidden_keys
from regard.attention.masks import Mask
from regard.core.errors import ShapeError
from regard.layers.positions.relative import Relative

HIDING = {
    "lengths": lambda n: Mask.lengths(torch.tensor([n, 3]), n),
    "start": lambda n: Mask.left_padded(torch.tensor([0, n - 3])),
    "pairs": lambda n: Mask.explicit(torch.arange(n).expand(n, n) < 3),
}


def spoilt(x, mask, *, value):
    seen, _ = zero_hidden_keys(torch.ones_like(x), x, mask)
    return torch.where(seen > 0, x, value)


@pytest.mark.parametrize("n", [6, 80])  # few keys, and many
@pytest.mark.parametrize("hiding", HIDING.values(), ids=HIDING)
@pytest.mark.parametrize("name", ["scaled_dot", "cosine", "additive"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("both", [True, False], ids=["keys and values", "keys alone"])
def test_padding_may_hold_anything(name, hiding, n, value, both):
    attend, mask = Attend(scores.build(name, 4)), hiding(n)
    q, k, v = (torch.randn(2, 1, n, 4) for _ in range(3))
    found = []
    for fill in (0.0, value):
        values = spoilt(v, mask, value=fill if both else 0.0)
        leaves = [x.clone().requires_grad_() for x in (q, spoilt(k, mask, value=fill), values)]
        mixed = attend(leaves[0], attend.project(leaves[1]), leaves[2], mask)
        gradients = torch.autograd.grad(mixed.square().sum(), [leaves[0], *attend.parameters()])
        found.append([mixed, *gradients])
    assert found[1][0].isfinite().all()
    torch.testing.assert_close(found[1][:2], found[0][:2])  # weights of a score meet the padding before the mask does


def test_of_the_function_too_and_what_is_seen_is_named():
    q, k, v = (torch.randn(2, 1, 6, 4) for _ in range(3))
    mask = HIDING["lengths"](6)
    clean = attend_once(q, k, v, mask=mask)
    k[1, :, 4], v[1, :, 3] = torch.nan, torch.inf
    torch.testing.assert_close(attend_once(q, k, v, mask=mask), clean)
    v[0, 0, 0, 0] = torch.nan
    with pytest.raises(ShapeError, match=r"^attend: key has NaN or infinity in it; look for a division by zero before"):
        attend_once(q, k, v, mask=mask)


def test_without_looking_it_is_never_certain():
    assert is_finite(torch.ones(2)) and not is_finite(torch.tensor([1.0, torch.nan]))
    assert not torch.vmap(lambda x: torch.ones(()) * is_finite(x))(torch.ones(2, 2)).any()
    assert not may_hide_keys(Mask.causal() & Mask.local(2)) and all(may_hide_keys(make(6)) for make in HIDING.values())


def test_positions_inside_the_score_too():
    mask, place = HIDING["lengths"](6), Relative(1, 4, max_distance=3)
    attend = Attend(scores.build("scaled_dot", 4), position_bias=place)
    q, k, v = (torch.randn(2, 1, 6, 4) for _ in range(3))
    q.requires_grad_()
    k[1, :, 3:] = torch.nan
    (gradient,) = torch.autograd.grad(attend(q, attend.project(k), v, mask).square().sum(), q)
    assert gradient.isfinite().all()
