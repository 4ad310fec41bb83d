"""Scores beside the goal: opinions of items, users and items that are new, rivals on the same questions, the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import DataError, MissingExtra
from regard.core.extras import require
from regard.core.inference_mode import eval_mode
from regard.core.state_tree import map_tensors
from regard.data.builtin import films
from regard.data.ratings.dataset import RatingsCollection
from regard.data.ratings.history_batches import TestCase
from regard.data.ratings.splits import TRAIN, VALID, check_has_validation
from regard.layers.item_softmax import all_log_probabilities
from regard.tasks.recommendation import baselines, metrics
from regard.tasks.recommendation.baselines import Interactions

if TYPE_CHECKING:
    from regard.tasks.recommendation import Config, Recommendation

Array = NDArray[np.float64]
MAX_MATRIX_CELLS = 2**27  # users × items up to which rivals are scored
NUM_NEGATIVES = 100  # items of a sampled list, beside the one that was chosen
FACTORS = (2, 4, 8, 16, 32)


def check_held_out(data: RatingsCollection, config: Config) -> None:
    """An error unless something is held out to choose weights by, and it can tell good ones from bad ones."""
    check_has_validation(data.split_ids, config.split)
    ratings = data.events.ratings
    if config.objective == "ratings" and ratings.min() == ratings.max():
        raise DataError(f"all ratings are {ratings[0]:g}: there is nothing to foretell; choose data.objective=next")
    liked = ratings[data.split_ids == VALID] >= config.liked
    if config.objective == "clicks" and liked.all() == liked.any():
        every = "liked" if liked.all() else "not liked"
        raise DataError(
            f"all that is held out for 'valid' is {every}, so there is no AUC; choose data.liked and data.disliked "
            "anew, or split=random"
        )


def predict_ratings(task: Recommendation, model: Any, test_cases: Sequence[TestCase]) -> Array:
    """(m) what each user will think of the item of the question, as a logit."""
    parts = []
    with eval_mode(model) as device:
        shelf = task.item_catalog(device)
        for low in range(0, len(test_cases), 256):
            some = test_cases[low : low + 256]
            people = map_tensors(task.histories.test_inputs(some), lambda x: x.to(device))
            parts.append(
                model.rating_logits(people, shelf, task.target_items(some).to(device)[:, None])[:, 0].float().cpu()
            )
    return torch.cat(parts).double().numpy()


def rating_metrics(task: Recommendation, model: Any, test_cases: Sequence[TestCase]) -> dict[str, float]:
    """AUC and log loss of liked or not; RMSE where ratings are foretold."""
    logits = predict_ratings(task, model, test_cases)
    ratings = task.data.events.ratings[[question.row for question in test_cases]]
    if task.config.objective == "clicks":
        liked = ratings >= task.config.liked
        return {"auc": metrics.auc(logits, liked), "log_loss": metrics.log_loss(logits, liked)}
    low, high = task.data.scale
    found = low + (high - low) / (1 + np.exp(-logits))
    clear = (ratings >= task.config.liked) | (ratings <= task.config.disliked)
    area = metrics.auc(logits[clear], ratings[clear] >= task.config.liked)
    return {"rmse": metrics.rmse(found, ratings)} | ({} if np.isnan(area) else {"auc": area})


def extra_metrics(task: Recommendation, model: Any, split_id: int) -> dict[str, float]:
    """All that `regard evaluate` prints beside the task's own scores."""
    found: dict[str, float] = {}
    if task.config.objective == "next":
        found = (
            sampled_metrics(task, model, split_id)
            | cold_start_metrics(task, model)
            | oracle_metrics(task, split_id)
            | popularity_metrics(task, split_id)
        )
    try:
        return found | (
            baseline_metrics(task, split_id) if task.config.objective == "next" else _of_factors(task, split_id)
        )
    except MissingExtra:  # the other rivals are other people's code
        return found


def sampled_metrics(task: Recommendation, model: Any, split_id: int) -> dict[str, float]:
    """The same among a hundred items drawn uniformly, as many papers have it: much higher, and another order."""
    questions, chance = task.histories.test_cases(split_id), torch.Generator().manual_seed(task.config.seed)
    size, parts = len(task.data.items.ids), []
    with eval_mode(model) as device:
        shelf = task.item_catalog(device)
        for low in range(0, len(questions), 256):
            some = questions[low : low + 256]
            scores = all_log_probabilities(model, task.user_states(model, some, shelf), shelf).float().cpu()
            chosen, seen = task.target_items(some), task.seen_items(some)
            draws = torch.rand(len(some), size, generator=chance)
            draws[torch.arange(len(some)), chosen] = -1  # the item itself and what was seen are not drawn
            rows = torch.arange(len(some))[:, None].expand_as(seen)[seen >= 0]
            draws[rows, seen[seen >= 0]] = -1
            few = draws.topk(min(NUM_NEGATIVES, size), dim=1)
            others = scores.gather(1, few.indices).masked_fill(few.values < 0, -torch.inf)
            wanted = scores[torch.arange(len(some)), chosen]
            parts.append(1 + (others > wanted[:, None]).sum(dim=1).float())
    return {
        f"sampled_{key}": value
        for key, value in metrics.ranking_metrics(torch.cat(parts), top=task.config.eval_k).items()
    }


def cold_start_metrics(task: Recommendation, model: Any) -> dict[str, float]:
    """Users and items that are held out entirely; beside each what popularity does there."""
    found: dict[str, float] = {}
    popular = torch.from_numpy(task.data.item_counts).float()
    held = torch.from_numpy(task.data.items.held_out)
    groups = {
        "new_users": (task.histories.new_user_cases(), None),
        "new_items": (task.histories.new_item_cases(), held),
    }
    for name, (questions, among) in groups.items():
        if not questions:
            continue
        ranks = task.rank_cases(model, questions, among).ranks
        counts = popular if among is None else popular.masked_fill(~among, -torch.inf)
        usual = baseline_ranks(task, questions, partial(_same, counts))
        for kind, values in ((name, ranks), (f"{name}_popularity", usual)):
            found |= {
                f"{kind}_{key}": value for key, value in metrics.ranking_metrics(values, top=task.config.eval_k).items()
            }
    return found


def _same(counts: Tensor, some: Sequence[TestCase]) -> Tensor:
    """The same scores for everyone."""
    return counts.expand(len(some), -1)


def baseline_ranks(
    task: Recommendation, test_cases: Sequence[TestCase], score_fn: Callable[[Sequence[TestCase]], Tensor]
) -> Tensor:
    """(m) the ranks of what was chosen, by other scores."""
    parts = []
    for low in range(0, len(test_cases), 256):
        some = test_cases[low : low + 256]
        parts.append(
            metrics.rank_targets(
                score_fn(some), task.target_items(some), task.seen_items(some), top=task.config.eval_k
            ).ranks
        )
    return torch.cat(parts)


def oracle_metrics(task: Recommendation, split_id: int) -> dict[str, float]:
    """On built-in data: the scores of whoever knows every taste."""
    config = task.config
    if config.path is not None:
        return {}
    known = films.generate_profiles(config.users, config.items, seed=config.seed)[2]

    def score(some: Sequence[TestCase]) -> Tensor:
        rows = [task.histories.history_before(question) for question in some]
        last = [known.mood[task.data.events.items[mine[-1]]] if len(mine) else 0.0 * known.mood[0] for mine in rows]
        return torch.from_numpy(known.taste[[question.user for question in some]] + np.stack(last))

    ranks = baseline_ranks(task, task.histories.test_cases(split_id), score)
    return {f"truth_{key}": value for key, value in metrics.ranking_metrics(ranks, top=config.eval_k).items()}


def popularity_metrics(task: Recommendation, split_id: int) -> dict[str, float]:
    """The items that were chosen most often so far, by anyone."""
    known = _chosen(task, split_id - 1)
    counts = torch.from_numpy(np.bincount(known.items, minlength=known.shape[1])).float()
    ranks = baseline_ranks(task, task.histories.test_cases(split_id), partial(_same, counts))
    return {f"popularity_{key}": value for key, value in metrics.ranking_metrics(ranks, top=task.config.eval_k).items()}


def baseline_metrics(task: Recommendation, split_id: int) -> dict[str, float]:
    """Neighbours and factorisation on the same questions."""
    if len(task.data.users.ids) * len(task.data.items.ids) > MAX_MATRIX_CELLS:
        return {}
    found: dict[str, float] = {}
    for name in baselines.BASELINES:
        found |= _of_rival(task, name, split_id)
    return found


def _of_rival(task: Recommendation, name: str, part: int) -> dict[str, float]:
    """A rival knows all that is asked about earlier, as a model does: for testing, the validation ratings too."""
    training, known = _chosen(task, TRAIN), _chosen(task, part - 1)
    questions = task.histories.test_cases(VALID)

    def judge(found: Any) -> float:
        ranks = baseline_ranks(task, questions, lambda some: _of_users(found, some))
        return metrics.ranking_metrics(ranks, top=task.config.eval_k)[f"ndcg@{task.config.eval_k}"]

    found = baselines.baseline_scores(name, training, known, metric=judge, seed=task.config.seed)
    ranks = baseline_ranks(task, task.histories.test_cases(part), lambda some: _of_users(found, some))
    return {f"{name}_{key}": value for key, value in metrics.ranking_metrics(ranks, top=task.config.eval_k).items()}


def _chosen(task: Recommendation, last: int) -> Interactions:
    """All choices of the parts up to `last`."""
    rows = task.data.split_ids <= last
    shape = len(task.data.users.ids), len(task.data.items.ids)
    return Interactions(task.data.events.users[rows], task.data.events.items[rows], shape)


def _of_users(found: Any, some: Sequence[TestCase]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(found[[question.user for question in some]]))


def _of_factors(task: Recommendation, part: int) -> dict[str, float]:
    """Matrix factorisation of the ratings; how many factors, and how a rating becomes a probability (scikit-learn's
    logistic regression), is chosen on the validation ratings."""
    events, parts, liked = task.data.events, task.data.split_ids, task.config.liked
    training = parts == TRAIN
    shape = len(task.data.users.ids), len(task.data.items.ids)
    known = events.users[training], events.items[training], events.ratings[training]
    valid, asked = parts == VALID, parts == part

    def error(found: Array) -> float:
        return metrics.rmse(found[events.users[valid], events.items[valid]], events.ratings[valid])

    factors = [size for size in FACTORS if size < min(shape)]
    if not factors or not valid.any() or not asked.any():
        return {}
    best = min((baselines.fit_biased_svd(*known, shape=shape, factors=size).predictions for size in factors), key=error)
    found, truth = best[events.users[asked], events.items[asked]], events.ratings[asked]
    rated = {"factorisation_rmse": metrics.rmse(found, truth)} if task.config.objective == "ratings" else {}
    clear = (truth >= liked) | (truth <= task.config.disliked)
    likes, learnt = truth[clear] >= liked, events.ratings[valid] >= liked
    if any(each.all() == each.any() for each in (likes, learnt)):  # all are liked, or none: there is nothing to tell
        return rated
    linear: Any = require("sklearn.linear_model", extra="recommendation").LogisticRegression()
    linear.fit(best[events.users[valid], events.items[valid]][:, None], learnt)
    logits = linear.decision_function(found[clear][:, None])
    return rated | {
        "factorisation_auc": metrics.auc(found[clear], likes),
        "factorisation_log_loss": metrics.log_loss(logits, likes),
    }


VARIANT_DESCRIPTIONS = {
    "sampled": "ranked among 100 items drawn uniformly, which is not comparable with a full ranking; otherwise",
    "new_users": "users held out entirely, asked for their last item by their history",
    "new_users_popularity": "popularity for users held out entirely",
    "new_items": "items held out entirely, ranked among each other",
    "new_items_popularity": "popularity, which knows nothing of items held out entirely",
    "truth": "by whoever knows every taste of the built-in users",
    "popularity": "by the items chosen most often",
    "item_knn": "by cosine neighbours of items (implicit), their number chosen on valid",
    "factorisation": "by alternating least squares (implicit), for ratings SVD (scipy); chosen on valid",
}


def signatures(*, top: int, liked: float, disliked: float) -> dict[str, str]:
    """How each score is computed."""
    own = {
        f"{name}@{top}" if name in ("hr", "ndcg", "coverage", "novelty") else name: how.format(
            top=top, liked=liked, disliked=disliked
        )
        for name, how in metrics.SIGNATURES.items()
    }
    return own | {f"{who}_{name}": f"{said}, as {name}" for who, said in VARIANT_DESCRIPTIONS.items() for name in own}
