"""Concat score: the formula with concatenated inputs; equal to the additive score if its W is [W U]."""

from __future__ import annotations

import torch

from regard.attention import scores


def test_the_formula():
    score = scores.build("concat", 4, 3)
    q, k = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 6, 3)
    result = score(q, score.project_keys(k))
    for i in range(5):
        for j in range(6):
            joined = torch.cat([q[:, :, i], k[:, :, j]], dim=-1)
            expected = torch.tanh(score.joined(joined)) @ score.weight.weight[0]
            torch.testing.assert_close(result[:, :, i, j], expected)


def test_splitting_w_makes_it_additive():
    additive, concat = scores.build("additive", 4, 3), scores.build("concat", 4, 3)
    with torch.no_grad():
        additive.query.weight.copy_(concat.joined.weight[:, :4])
        additive.key.weight.copy_(concat.joined.weight[:, 4:])
        additive.weight.weight.copy_(concat.weight.weight)
    q, k = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 6, 3)
    torch.testing.assert_close(additive(q, additive.project_keys(k)), concat(q, concat.project_keys(k)))
