"""Rollout: rows sum to one, and one layer is half attention, half the residual path."""

import pytest
import torch

from regard.attention.rollout import rollout


def test_rollout():
    maps = [torch.rand(2, 3, 4, 4).softmax(dim=-1) for _ in range(3)]
    total = rollout(maps)
    torch.testing.assert_close(total.sum(dim=-1), torch.ones(2, 4))
    steps = [(weights.mean(dim=1) + torch.eye(4)) / 2 for weights in maps]
    torch.testing.assert_close(total, steps[2] @ steps[1] @ steps[0])
    torch.testing.assert_close(rollout(maps[:1]), steps[0])


def test_nothing_to_roll_out():
    with pytest.raises(ValueError, match=r"^rollout: there are no maps$"):
        rollout([])
