"""A score of its own for every head."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.per_head import PerHead
from regard.attention.score import ScoreFunction
from regard.core.errors import ShapeError
from regard.core.registry import names


def make(*kinds):
    return [scores.build(name, 4) for name in kinds]


@pytest.mark.parametrize("kinds", [names("regard.attention.scores"), ["dot", "scaled_dot", "cosine", "general"]])
def test_each_head_is_as_if_alone(kinds):
    parts = make(*kinds)
    score = PerHead(parts)
    q, k, v = (torch.randn(2, len(parts), 5, 4) for _ in range(3))
    mask = Mask.causal() & Mask.lengths(torch.tensor([5, 3]))
    mixed = Attend(score)(q, Attend(score).project(k), v, mask)
    for i, part in enumerate(parts):
        head = slice(i, i + 1)
        alone = Attend(part)(q[:, head], Attend(part).project(k[:, head]), v[:, head], mask)
        torch.testing.assert_close(mixed[:, head], alone)


def test_inner_products_alone_use_one_kernel():
    q = torch.randn(1, 2, 3, 4)
    assert PerHead(make("dot", "cosine")).as_dot(q, q) is not None
    assert PerHead(make("dot", "concat")).as_dot(q, q) is None


def test_it_holds_as_much_as_the_most_demanding_of_its_scores():
    class Demanding(ScoreFunction):
        inner = 7

    assert PerHead([*make("dot"), Demanding()]).inner == 7


def test_scores_and_heads_must_be_as_many():
    q = torch.randn(1, 3, 2, 4)
    score = PerHead(make("dot", "concat"))
    with pytest.raises(ShapeError, match="PerHead: 2 scores for 3 heads; give one score per head"):
        score.project_keys(q)
