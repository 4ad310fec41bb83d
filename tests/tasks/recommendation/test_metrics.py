"""Scores of lists and opinions agree with scikit-learn; what was seen is left out, and equal scores gain nothing."""

import numpy as np
import pytest
import torch

from regard.tasks.recommendation import metrics as recommendation_metrics

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def scored():
    scores = torch.from_numpy(RNG.standard_normal((40, 30)))
    chosen = torch.from_numpy(RNG.integers(0, 30, 40))
    return scores, chosen, torch.full((40, 0), -1)


def test_ndcg_hits_and_mrr_are_those_of_scikit_learn(scored):
    metrics = pytest.importorskip("sklearn.metrics")
    scores, chosen, seen = scored
    ranked = recommendation_metrics.rank_targets(scores, chosen, seen, top=10)
    found = recommendation_metrics.ranking_metrics(ranked.ranks, top=10)
    truth = np.eye(30)[chosen.numpy()]
    assert found["ndcg@10"] == pytest.approx(metrics.ndcg_score(truth, scores.numpy(), k=10))
    assert found["hr@10"] == pytest.approx(
        metrics.top_k_accuracy_score(chosen.numpy(), scores.numpy(), k=10, labels=range(30))
    )
    assert found["mrr"] == pytest.approx(metrics.label_ranking_average_precision_score(truth, scores.numpy()))


def test_lists_without_what_was_seen_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    scores, chosen = rng.standard_normal((50, 40)), rng.integers(0, 40, 50)
    seen = np.array([rng.permutation(np.delete(np.arange(40), place))[:9] for place in chosen])
    seen[:10, 4:] = -1  # some had fewer
    left = scores.copy()
    for row, own in enumerate(seen):
        left[row, own[own >= 0]] = -100.0
    ranked = recommendation_metrics.rank_targets(
        torch.from_numpy(scores), torch.from_numpy(chosen), torch.from_numpy(seen), top=5
    )
    found, truth = recommendation_metrics.ranking_metrics(ranked.ranks, top=5), np.eye(40)[chosen]
    assert found["ndcg@5"] == pytest.approx(metrics.ndcg_score(truth, left, k=5))
    assert found["hr@5"] == pytest.approx(metrics.top_k_accuracy_score(chosen, left, k=5, labels=range(40)))
    assert found["mrr"] == pytest.approx(metrics.label_ranking_average_precision_score(truth, left))


def test_what_was_seen_is_left_out_and_what_was_chosen_never_is():
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0]])
    plain = recommendation_metrics.rank_targets(scores, torch.tensor([2]), torch.tensor([[-1]]), top=4)
    fewer = recommendation_metrics.rank_targets(scores, torch.tensor([2]), torch.tensor([[0, 1, 2, -1]]), top=2)
    assert plain.ranks.tolist() == [3.0] and fewer.ranks.tolist() == [1.0]
    assert fewer.top_items.tolist() == [[2, 3]] and scores[0, 0] == 5.0  # the scores are as they were


def test_equal_scores_have_the_middle_rank():
    ranked = recommendation_metrics.rank_targets(
        torch.zeros(2, 11), torch.tensor([0, 7]), torch.full((2, 0), -1), top=3
    )
    assert ranked.ranks.tolist() == [6.0, 6.0]
    assert recommendation_metrics.ranking_metrics(ranked.ranks, top=5)["hr@5"] == 0.0


def test_coverage_and_novelty():
    found = recommendation_metrics.coverage_and_novelty(torch.tensor([[0, 1], [0, 2]]), np.array([8, 4, 4, 0]), top=2)
    assert found["coverage@2"] == 0.75
    assert found["novelty@2"] == pytest.approx((1 + 2 + 1 + 2) / 4)


def test_auc_log_loss_and_rmse_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    logits, liked = RNG.standard_normal(200).round(1), RNG.random(200) < 0.4  # rounded: some are equal
    assert recommendation_metrics.auc(logits, liked) == pytest.approx(metrics.roc_auc_score(liked, logits))
    assert recommendation_metrics.log_loss(logits, liked) == pytest.approx(
        metrics.log_loss(liked, 1 / (1 + np.exp(-logits)))
    )
    other = RNG.standard_normal(200)
    assert recommendation_metrics.rmse(logits, other) == pytest.approx(metrics.root_mean_squared_error(logits, other))
    assert np.isnan(recommendation_metrics.auc(logits, np.ones(200, dtype=bool)))
