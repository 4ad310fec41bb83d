"""The rivals find what is plain to see, and their settings are chosen by whoever judges them."""

import numpy as np
import pytest

from regard.tasks.recommendation import baselines
from regard.tasks.recommendation.baselines import Interactions


@pytest.fixture(scope="module")
def chosen():
    """Two groups of users, each with items of its own; the last user of each has chosen one item only."""
    pytest.importorskip("implicit")
    rows = [(u, i) for u in range(8) for i in range(6) if (u < 4) == (i < 3)]
    rows = [(u, i) for u, i in rows if u not in (3, 7) or i in (0, 3)]
    users, items = np.array(rows).T
    return Interactions(users, items, (8, 6))


@pytest.mark.parametrize("name", ["item_knn", "factorisation"])
def test_items_of_ones_own_group_come_first(chosen, name):
    for rival in baselines.BASELINES[name]:
        scores = rival(chosen.matrix(), 1)
        assert scores.shape == (8, 6)
        assert scores[3, 1:3].min() > scores[3, 3:].max() and scores[7, 4:].min() > scores[7, :3].max()


def test_the_judge_decides(chosen):
    asked = []

    def judge(scores):
        asked.append(scores)
        return float(len(asked) == 2)

    found = baselines.baseline_scores("item_knn", chosen, chosen, metric=judge, seed=1)
    assert len(asked) == len(baselines.BASELINES["item_knn"]) and np.allclose(found, asked[1])


def test_ratings_are_means_biases_and_factors():
    rng = np.random.default_rng(0)
    true = (
        3
        + rng.standard_normal((30, 1))
        + rng.standard_normal(20)
        + np.outer(rng.standard_normal(30), rng.standard_normal(20))
    )
    users, items = np.divmod(rng.permutation(600)[:550], 20)
    found = baselines.fit_biased_svd(users, items, true[users, items], shape=(30, 20), factors=2).predictions
    assert np.corrcoef(found[users, items], true[users, items])[0, 1] > 0.9
