"""Weigh is the definition of the weights: score, mask, normalize. `as_dot` gives the form of the fused kernel."""

from __future__ import annotations

import torch

from regard.attention import scores
from regard.attention.masks import Mask
from regard.attention.normalizers import Hard
from regard.attention.weigh import Weigh
from regard.layers.positions import build as position


def test_the_definition():
    q, k = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8)
    mask = Mask.causal()
    weights = Weigh(scores.build("scaled_dot", 8))(q, k, mask)
    raw = (q @ k.mT / 8**0.5).masked_fill(~mask.dense(4, 5), float("-inf"))
    torch.testing.assert_close(weights, raw.softmax(dim=-1))


def test_only_a_softmax_of_inner_products_is_a_dot():
    q = torch.randn(1, 1, 2, 4)
    assert Weigh(scores.build("dot", 4)).as_dot(q, q) is not None
    assert Weigh(scores.build("concat", 4)).as_dot(q, q) is None
    assert Weigh(scores.build("dot", 4), normalizer=Hard()).as_dot(q, q) is None


def test_position_biases():
    dot, sizes = scores.build("dot", 4), {"heads": 1, "dim": 4}
    assert not Weigh(dot).depends_on_position
    for name in ("relative", "rotary"):
        assert Weigh(dot, position_bias=position(name, 4, max_length=3).position_bias(**sizes)).depends_on_position
    q = torch.randn(1, 1, 2, 4)
    assert Weigh(dot, position_bias=position("rotary", 4, max_length=3).position_bias(**sizes)).as_dot(q, q) is not None
    assert Weigh(dot, position_bias=position("relative", 4, max_length=3).position_bias(**sizes)).as_dot(q, q) is None


def test_the_relative_table_is_a_parameter():
    bias = position("relative", 4, max_length=3).position_bias(heads=1, dim=4)
    assert [name for name, _ in Weigh(scores.build("dot", 4), position_bias=bias).named_parameters()] == ["place.table"]
