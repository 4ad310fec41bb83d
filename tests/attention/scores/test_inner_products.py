"""Dot, scaled dot, general and cosine scores: their formulas, and the check of widths."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.core.errors import ConfigError, ShapeError


def query_and_key():
    return torch.randn(2, 2, 3, 4), torch.randn(2, 2, 5, 4)


def test_dot_and_scaled_dot():
    q, k = query_and_key()
    expected = torch.einsum("bhtd,bhsd->bhts", q, k)
    torch.testing.assert_close(scores.build("dot", 4)(q, k), expected)
    torch.testing.assert_close(scores.build("scaled_dot", 4)(q, k), expected / 2)


def test_general_with_keys_of_another_width():
    score = scores.build("general", 4, 3)
    q, k = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 5, 3)
    expected = torch.einsum("bhtd,de,bhse->bhts", q, score.weight.weight, k)
    torch.testing.assert_close(score(q, score.project_keys(k)), expected)


def test_cosine():
    q, k = query_and_key()
    score = scores.build("cosine", 4)
    expected = torch.cosine_similarity(q[..., :, None, :], k[..., None, :, :], dim=-1)
    torch.testing.assert_close(score(q, score.project_keys(k)), 10 * expected)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "cosine"])
def test_widths_that_must_agree(name):
    with pytest.raises(ShapeError, match=f"score '{name}': queries have width 4 but keys 3; project them to one width"):
        scores.build(name, 4, 3)


def test_an_unknown_score_suggests_the_nearest():
    with pytest.raises(ConfigError, match="unknown score 'additiv'; did you mean 'additive'"):
        scores.build("additiv", 4)
    with pytest.raises(
        ConfigError, match="known: additive, concat, cosine, dot, general, location, monotonic_location, scaled_dot"
    ):
        scores.build("xyz", 4)
