"""How good recommendations are: ranks of what was chosen among all items, and opinions of items, all users at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


class RankingResult(NamedTuple):
    """Of each question: the rank of what was chosen, from 1 on, and the places of the best items."""

    ranks: Tensor  # (m)
    top_items: Tensor  # (m k)
    losses: Tensor  # (m) -log p of what was chosen


def rank_targets(scores: Tensor, targets: Tensor, excluded: Tensor, *, top: int) -> RankingResult:
    """Scores (m n), what was chosen (m), and places that are left out (m s; -1: none) -> ranks among the others. What
    was chosen is never left out; of equal scores the middle rank counts, so that a constant score gains nothing."""
    scores = scores.clone()
    rows = torch.arange(len(targets), device=scores.device)
    wanted = scores[rows, targets]
    own = rows[:, None].expand_as(excluded)[excluded >= 0]
    scores[own, excluded[excluded >= 0]] = -torch.inf
    scores[rows, targets] = wanted
    above = (scores > wanted[:, None]).sum(dim=1)
    equal = (scores == wanted[:, None]).sum(dim=1) - 1
    best = scores.topk(min(top, scores.shape[1]), dim=1).indices
    return RankingResult(1 + above + equal / 2, best, -wanted)


def concat_rankings(parts: list[RankingResult]) -> RankingResult:
    """Several as one."""
    return RankingResult(*(torch.cat(column) for column in zip(*parts, strict=True)))


def ranking_metrics(ranks: Tensor, *, top: int) -> dict[str, float]:
    """HR@k, NDCG@k and MRR; one item was chosen, so the best DCG is 1."""
    hit = ranks <= top
    gain = torch.where(hit, 1 / torch.log2(ranks.double() + 1), 0.0)
    return {
        f"hr@{top}": float(hit.double().mean()),
        f"ndcg@{top}": float(gain.mean()),
        "mrr": float((1 / ranks.double()).mean()),
    }


def coverage_and_novelty(top_items: Tensor, counts: NDArray[np.int64], *, top: int) -> dict[str, float]:
    """Coverage: the share of items that are recommended to anyone. Novelty: bits, -log2 of an item's share of all
    choices, mean of what is recommended; what nobody chose counts as chosen once."""
    places = top_items[:, :top].cpu().numpy()
    share = np.maximum(counts, 1) / max(1, counts.sum())
    return {
        f"coverage@{top}": float(len(np.unique(places)) / len(counts)),
        f"novelty@{top}": float(-np.log2(share[places]).mean()),
    }


def auc(scores: Array, liked: NDArray[np.bool_]) -> float:
    """The chance that a liked item has the higher score; equal scores count half."""
    positive, negative = int(liked.sum()), int((~liked).sum())
    if not positive or not negative:
        return float("nan")
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[group]
    return float((ranks[liked].sum() - positive * (positive + 1) / 2) / (positive * negative))


def log_loss(logits: Array, liked: NDArray[np.bool_]) -> float:
    """-log p of what was thought, mean."""
    return float(np.logaddexp(0, np.where(liked, -logits, logits)).mean())


def rmse(predictions: Array, ratings: Array) -> float:
    """The root of the mean squared error."""
    return float(np.sqrt(np.mean((predictions - ratings) ** 2)))


SIGNATURES = {
    "hr": "share of questions whose item is among the first {top} of all items, those seen before left out",
    "ndcg": "1/log2(1 + rank) of the item if among the first {top}, mean; full ranking, seen items left out",
    "mrr": "1/rank, mean; full ranking, seen items left out",
    "coverage": "share of all items that are among anyone's first {top}",
    "novelty": "-log2 of the share of all training choices, mean over the first {top}",
    "loss": "-log p of the item among all items, mean",
    "auc": "chance that an item rated {liked:g} or more has a higher score than one rated {disliked:g} or less",
    "log_loss": "-log p of liked or not liked, mean; ratings between are left out",
    "rmse": "root of the mean squared error of ratings",
}
