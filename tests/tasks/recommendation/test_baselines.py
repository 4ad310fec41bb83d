"""Baselines find obvious structure, and their settings are chosen by the metric."""

import numpy as np
import pytest

from regard.tasks.recommendation import baselines
from regard.tasks.recommendation.baselines import Interactions, SelectionCase

NEAR = {"scale": 2.0, "age_scale": 2.0, "backward": 0.3, "popularity": 0.5}


@pytest.fixture(scope="module")
def interactions():
    """Two groups of users with disjoint items; the last user of each group chose one item only."""
    rows = [(u, i) for u in range(8) for i in range(6) if (u < 4) == (i < 3)]
    rows = [(u, i) for u, i in rows if u not in (3, 7) or i in (0, 3)]
    users, items = np.array(rows).T
    return Interactions(users, items, (8, 6))


@pytest.mark.parametrize("name", ["sequence_knn", "ease", "item_knn", "factorisation"])
def test_items_of_the_same_group_come_first(interactions, name):
    if name not in baselines.DENSE_BASELINES:
        pytest.importorskip("implicit")
    for baseline in baselines.BASELINES[name]:
        scores = baseline(interactions, 1)
        assert scores.shape == (8, 6)
        assert scores[3, 1:3].min() > scores[3, 3:].max() and scores[7, 4:].min() > scores[7, :3].max()


def test_neighbours_in_the_sequence_depend_on_the_order():
    """After 0 comes 1 in all histories, while 2 is chosen just as often but far away."""
    rows = [(u, i) for u in range(5) for i in (0, 1, 3, 4, 5, 2)]
    users, items = np.array([*rows, (5, 0)]).T
    scores = baselines.sequence_knn(Interactions(users, items, (6, 6)), 1, **NEAR)
    assert scores[5, 1] > 2 * scores[5, 2] > 0


def test_later_items_count_more_than_earlier_ones_and_recent_items_more_than_old_ones():
    users, items = np.array([(u, i) for u in range(5) for i in (0, 1, 2)]).T
    scores = baselines.sequence_knn(Interactions(users, items, (5, 3)), 1, **NEAR | {"age_scale": 0.01})
    assert scores[0, 1] > 0 and np.allclose(
        scores[:, 2], 0
    )  # of item 2, the last one, only the earlier neighbours count
    forward = baselines.sequence_knn(Interactions(users[:-1], items[:-1], (5, 3)), 1, **NEAR | {"age_scale": 0.01})
    assert forward[4, 2] > 2 * forward[4, 0]  # item 1 is last: the next item counts more than the one before
    recent = Interactions(np.zeros(3, np.int64), np.arange(3), (1, 3)).recent(2.0)
    assert np.allclose(recent, np.exp([[-1.0, -0.5, 0.0]]))


def test_ease_is_the_regression_of_each_item_on_the_others():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 6)) < 0.4)
    choices = Interactions(users, items, (30, 6))
    matrix, scores = choices.dense(), baselines.ease(choices, 1, regularization=3.0)
    for item in range(6):
        others = np.delete(matrix, item, axis=1).astype(np.float64)
        weights = np.linalg.solve(others.T @ others + 3.0 * np.eye(5), others.T @ matrix[:, item])
        assert np.allclose(scores[:, item], others @ weights, atol=1e-4)


def test_the_metric_selects_the_settings(interactions):
    candidates = []

    def metric(scores):
        candidates.append(scores)
        return float(len(candidates) == 2)

    scores = baselines.baseline_scores("ease", [SelectionCase(interactions, metric)], interactions, seed=1)
    assert len(candidates) == len(baselines.BASELINES["ease"]) and np.allclose(scores, candidates[1])


def test_biased_svd_predicts_ratings():
    rng = np.random.default_rng(0)
    true = (
        3
        + rng.standard_normal((30, 1))
        + rng.standard_normal(20)
        + np.outer(rng.standard_normal(30), rng.standard_normal(20))
    )
    users, items = np.divmod(rng.permutation(600)[:550], 20)
    predictions = baselines.fit_biased_svd(users, items, true[users, items], shape=(30, 20), factors=2).predictions
    assert np.corrcoef(predictions[users, items], true[users, items])[0, 1] > 0.9
