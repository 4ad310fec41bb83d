"""Ranks: those of scipy, and equal scores share the middle rank."""

import numpy as np
import pytest
import torch

from regard.core.tied_ranks import middle_ranks, rank_among


def test_middle_ranks_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(0).integers(0, 9, 50)
    assert np.array_equal(middle_ranks(values), stats.rankdata(values))
    assert middle_ranks([3.0, 3.0, 1.0]).tolist() == [2.5, 2.5, 1.0]


def test_a_target_shares_the_rank_of_its_ties():
    others = torch.tensor([[0.0, 0.0, 0.0, 0.0], [3.0, 1.0, 1.0, 0.0]])
    assert rank_among(torch.tensor([0.0, 1.0]), others).tolist() == [3.0, 3.0]
