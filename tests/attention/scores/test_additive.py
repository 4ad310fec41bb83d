"""Additive score: the formula of Bahdanau et al."""

from __future__ import annotations

import torch

from regard.attention import scores


def test_the_formula():
    score = scores.build("additive", 4, 3)
    q, k = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 6, 3)
    result = score(q, score.project_keys(k))
    for i in range(5):
        for j in range(6):
            expected = torch.tanh(score.query(q[:, :, i]) + score.key(k[:, :, j])) @ score.weight.weight[0]
            torch.testing.assert_close(result[:, :, i, j], expected)
