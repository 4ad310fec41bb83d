"""Weigh is the definition: score, mask, normalise; and it says when the kernel may be used."""

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
    found = Weigh(scores.build("scaled_dot", 8))(q, k, mask)
    raw = (q @ k.mT / 8**0.5).masked_fill(~mask.dense(4, 5), float("-inf"))
    torch.testing.assert_close(found, raw.softmax(dim=-1))


def test_only_a_softmax_of_inner_products_is_one_for_the_kernel():
    q = torch.randn(1, 1, 2, 4)
    assert Weigh(scores.build("dot", 4)).as_dot(q, q) is not None
    assert Weigh(scores.build("concat", 4)).as_dot(q, q) is None
    assert Weigh(scores.build("dot", 4), normalizer=Hard()).as_dot(q, q) is None


def test_places():
    dot, scheme = scores.build("dot", 4), {"heads": 1, "dim": 4}
    assert not Weigh(dot).depends_on_position
    for name in ("relative", "rotary"):
        assert Weigh(dot, position_bias=position(name, 4, max_length=3).position_bias(**scheme)).depends_on_position
    q = torch.randn(1, 1, 2, 4)
    assert (
        Weigh(dot, position_bias=position("rotary", 4, max_length=3).position_bias(**scheme)).as_dot(q, q) is not None
    )
    assert Weigh(dot, position_bias=position("relative", 4, max_length=3).position_bias(**scheme)).as_dot(q, q) is None


def test_the_weights_of_a_relative_table_are_weights_of_the_model():
    place = position("relative", 4, max_length=3).position_bias(heads=1, dim=4)
    assert [name for name, _ in Weigh(scores.build("dot", 4), position_bias=place).named_parameters()] == [
        "place.table"
    ]
