"""Metrics of recommendations: ranking metrics over all items, and metrics of predicted ratings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.example_statistics import record_mean, record_statistics
from regard.core.tied_ranks import middle_ranks, rank_among

Array = NDArray[np.float64]


class RankingResult(NamedTuple):
    """Ranks of the target items, from 1, and the best items of each test case."""

    ranks: Tensor  # (m)
    top_items: Tensor  # (m k)
    losses: Tensor  # (m) -log p of the target items


def rank_targets(scores: Tensor, targets: Tensor, excluded: Tensor, *, top: int) -> RankingResult:
    """Scores (m n), targets (m) and excluded items (m s; -1: none) -> ranks of the targets among the other items.

    Targets are never excluded. Equal scores get their mean rank, so that a constant score gains nothing.
    """
    scores = scores.clone()
    rows = torch.arange(len(targets), device=scores.device)
    target_scores = scores[rows, targets]
    excluded_rows = rows[:, None].expand_as(excluded)[excluded >= 0]
    scores[excluded_rows, excluded[excluded >= 0]] = -torch.inf
    scores[rows, targets] = target_scores
    ranks = rank_among(target_scores, scores) - 0.5  # the target ties with itself
    best = scores.topk(min(top, scores.shape[1]), dim=1).indices
    return RankingResult(ranks, best, -target_scores)


def concat_rankings(parts: list[RankingResult]) -> RankingResult:
    """Concatenate ranking results."""
    return RankingResult(*(torch.cat(column) for column in zip(*parts, strict=True)))


def ranking_metrics(ranks: Tensor, *, top: int) -> dict[str, float]:
    """Return HR@k, NDCG@k and MRR; there is one target, so the best DCG is 1."""
    hit = ranks <= top
    gain = torch.where(hit, 1 / torch.log2(ranks.double() + 1), 0.0)
    return {
        f"hr@{top}": float(hit.double().mean()),
        f"ndcg@{top}": float(gain.mean()),
        "mrr": float((1 / ranks.double()).mean()),
    }


def set_metrics(ranks: Tensor, users: NDArray[np.int64], *, top: int) -> dict[str, float]:
    """Ranks (m) of targets and their users (m) -> precision@k, recall@k and NDCG@k of the lists, mean over users.

    A list is compared with all held-out items of its user; their order does not matter.
    """
    _, rows, counts = np.unique(users, return_inverse=True, return_counts=True)
    hit = (ranks <= top).double().cpu().numpy()
    gains = hit / np.log2(ranks.double().cpu().numpy() + 1)
    hits, gain = np.bincount(rows, hit), np.bincount(rows, gains)
    best_gains = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, top + 2)))])[np.minimum(counts, top)]
    return {
        f"precision@{top}": float((hits / top).mean()),
        f"recall@{top}": float((hits / counts).mean()),
        f"ndcg@{top}": float((gain / best_gains).mean()),
    }


def record_ranking(ranks: Tensor, *, top: int) -> None:
    """Record HR@k, NDCG@k and 1/rank of each test case."""
    hit = ranks <= top
    record_mean(f"hr@{top}", hit.cpu())
    record_mean(f"ndcg@{top}", torch.where(hit, 1 / torch.log2(ranks.double() + 1), 0.0).cpu())
    record_mean("mrr", (1 / ranks.double()).cpu())


def record_auc(scores: Array, liked: NDArray[np.bool_]) -> None:
    """Record the score and the label of each test case, from which AUC is computed."""
    record_statistics(
        "auc", np.stack([scores, liked], axis=1), lambda rows: auc(rows[:, 0], rows[:, 1].astype(np.bool_))
    )


def record_rmse(predictions: Array, ratings: Array) -> None:
    """Record the squared error of each rating."""
    record_statistics("rmse", (predictions - ratings) ** 2, lambda rows: float(np.sqrt(rows.mean())))


def coverage_and_novelty(top_items: Tensor, counts: NDArray[np.int64], *, top: int) -> dict[str, float]:
    """Return coverage, the share of items recommended to any user, and novelty in bits.

    Novelty is the mean of -log2 of a recommended item's share of all choices; unchosen items count as chosen once.
    """
    items = top_items[:, :top].cpu().numpy()
    share = np.maximum(counts, 1) / max(1, counts.sum())
    return {
        f"coverage@{top}": float(len(np.unique(items)) / len(counts)),
        f"novelty@{top}": float(-np.log2(share[items]).mean()),
    }


def auc(scores: Array, liked: NDArray[np.bool_]) -> float:
    """Return the probability that a liked item has a higher score than another; equal scores count half."""
    positive, negative = int(liked.sum()), int((~liked).sum())
    if not positive or not negative:
        return float("nan")
    ranks = middle_ranks(scores)
    return float((ranks[liked].sum() - positive * (positive + 1) / 2) / (positive * negative))


def log_loss(logits: Array, liked: NDArray[np.bool_]) -> float:
    """Return the mean -log p of liked or not liked."""
    return float(np.logaddexp(0, np.where(liked, -logits, logits)).mean())


def rmse(predictions: Array, ratings: Array) -> float:
    """Return the root mean squared error."""
    return float(np.sqrt(np.mean((predictions - ratings) ** 2)))


SET_SIGNATURES = {
    "precision": "share of a user's first {top} items, without items chosen before, that are held out; mean over users",
    "recall": "share of a user's held-out items among the first {top}; mean over users",
    "ndcg": "sum of 1/log2(1 + rank) of a user's held-out items among the first {top}, as a share of the best possible",
}
SIGNATURES = {
    "hr": "share of test cases whose item is among the first {top} of all items, without items chosen before",
    "ndcg": "1/log2(1 + rank) of the item if among the first {top}, mean; full ranking, without items chosen before",
    "mrr": "1/rank, mean; full ranking, without items chosen before",
    "coverage": "share of all items that are among the first {top} of any user",
    "novelty": "-log2 of the share of all training choices, mean over the first {top}",
    "loss": "-log p of the item among all items, mean",
    "auc": "probability that an item rated {liked:g} or more has a higher score than one rated {disliked:g} or less",
    "log_loss": "-log p of liked or not liked, mean; without ratings between",
    "rmse": "root of the mean squared error of ratings",
}
