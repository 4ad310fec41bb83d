"""Metrics agree with scikit-learn; items chosen before are excluded, and equal scores gain nothing."""

import numpy as np
import pytest
import torch

from regard.tasks.recommendation import metrics as recommendation_metrics

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def scored():
    scores = torch.from_numpy(RNG.standard_normal((40, 30)))
    targets = torch.from_numpy(RNG.integers(0, 30, 40))
    return scores, targets, torch.full((40, 0), -1)


def test_ndcg_hits_and_mrr_are_those_of_scikit_learn(scored):
    metrics = pytest.importorskip("sklearn.metrics")
    scores, targets, excluded = scored
    ranking = recommendation_metrics.rank_targets(scores, targets, excluded, top=10)
    result = recommendation_metrics.ranking_metrics(ranking.ranks, top=10)
    truth = np.eye(30)[targets.numpy()]
    assert result["ndcg@10"] == pytest.approx(metrics.ndcg_score(truth, scores.numpy(), k=10))
    assert result["hr@10"] == pytest.approx(
        metrics.top_k_accuracy_score(targets.numpy(), scores.numpy(), k=10, labels=range(30))
    )
    assert result["mrr"] == pytest.approx(metrics.label_ranking_average_precision_score(truth, scores.numpy()))


def test_ranking_metrics_with_excluded_items_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    scores, targets = rng.standard_normal((50, 40)), rng.integers(0, 40, 50)
    excluded = np.array([rng.permutation(np.delete(np.arange(40), target))[:9] for target in targets])
    excluded[:10, 4:] = -1  # shorter histories
    masked = scores.copy()
    for row, items in enumerate(excluded):
        masked[row, items[items >= 0]] = -100.0
    ranking = recommendation_metrics.rank_targets(
        torch.from_numpy(scores), torch.from_numpy(targets), torch.from_numpy(excluded), top=5
    )
    result, truth = recommendation_metrics.ranking_metrics(ranking.ranks, top=5), np.eye(40)[targets]
    assert result["ndcg@5"] == pytest.approx(metrics.ndcg_score(truth, masked, k=5))
    assert result["hr@5"] == pytest.approx(metrics.top_k_accuracy_score(targets, masked, k=5, labels=range(40)))
    assert result["mrr"] == pytest.approx(metrics.label_ranking_average_precision_score(truth, masked))


def test_items_are_excluded_but_targets_never_are():
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0]])
    plain = recommendation_metrics.rank_targets(scores, torch.tensor([2]), torch.tensor([[-1]]), top=4)
    fewer = recommendation_metrics.rank_targets(scores, torch.tensor([2]), torch.tensor([[0, 1, 2, -1]]), top=2)
    assert plain.ranks.tolist() == [3.0] and fewer.ranks.tolist() == [1.0]
    assert fewer.top_items.tolist() == [[2, 3]] and scores[0, 0] == 5.0  # the scores are unchanged


def test_equal_scores_have_their_mean_rank():
    ranking = recommendation_metrics.rank_targets(
        torch.zeros(2, 11), torch.tensor([0, 7]), torch.full((2, 0), -1), top=3
    )
    assert ranking.ranks.tolist() == [6.0, 6.0]
    assert recommendation_metrics.ranking_metrics(ranking.ranks, top=5)["hr@5"] == 0.0


def test_coverage_and_novelty():
    result = recommendation_metrics.coverage_and_novelty(torch.tensor([[0, 1], [0, 2]]), np.array([8, 4, 4, 0]), top=2)
    assert result["coverage@2"] == 0.75
    assert result["novelty@2"] == pytest.approx((1 + 2 + 1 + 2) / 4)


def test_auc_log_loss_and_rmse_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    logits, liked = RNG.standard_normal(200).round(1), RNG.random(200) < 0.4  # rounded: some are equal
    assert recommendation_metrics.auc(logits, liked) == pytest.approx(metrics.roc_auc_score(liked, logits))
    assert recommendation_metrics.log_loss(logits, liked) == pytest.approx(
        metrics.log_loss(liked, 1 / (1 + np.exp(-logits)))
    )
    ratings = RNG.standard_normal(200)
    assert recommendation_metrics.rmse(logits, ratings) == pytest.approx(
        metrics.root_mean_squared_error(logits, ratings)
    )
    assert np.isnan(recommendation_metrics.auc(logits, np.ones(200, dtype=bool)))


def test_lists_are_compared_with_all_items_of_a_user():
    """User 0 has targets at ranks 1 and 3 and one beyond the list, user 7 one at rank 2."""
    ranks, users = torch.tensor([1.0, 3.0, 9.0, 2.0]), np.array([0, 0, 0, 7])
    result = recommendation_metrics.set_metrics(ranks, users, top=4)
    assert result["precision@4"] == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert result["recall@4"] == pytest.approx((2 / 3 + 1) / 2)
    best = 1 + 1 / np.log2(3) + 1 / np.log2(4)
    assert result["ndcg@4"] == pytest.approx(((1 + 1 / np.log2(4)) / best + 1 / np.log2(3)) / 2)
