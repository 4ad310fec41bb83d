"""Rollout: rows sum to one, and a layer is half attention, half residual connection."""

import pytest
import torch

from regard.attention.rollout import rollout


def test_rollout():
    maps = [torch.rand(2, 3, 4, 4).softmax(dim=-1) for _ in range(3)]
    total = rollout(maps)
    torch.testing.assert_close(total.sum(dim=-1), torch.ones(2, 4))
    layers = [(weights.mean(dim=1) + torch.eye(4)) / 2 for weights in maps]
    torch.testing.assert_close(total, layers[2] @ layers[1] @ layers[0])
    torch.testing.assert_close(rollout(maps[:1]), layers[0])


def test_no_maps_are_an_error():
    with pytest.raises(ValueError, match=r"^rollout: there are no maps$"):
        rollout([])
