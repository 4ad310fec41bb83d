"""Evaluation of recommenders: ranking, rating prediction, cold start, baselines, and an oracle on synthetic data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import ConfigError, DataError, MissingExtra
from regard.core.extras import require
from regard.core.inference_mode import eval_mode
from regard.core.protocols.recommender import ItemCatalog, RecommenderModel, last_states
from regard.core.state_tree import map_tensors
from regard.core.tied_ranks import rank_among
from regard.data.builtin import films
from regard.data.ratings.dataset import RatingsCollection
from regard.data.ratings.history_batches import Histories, TestCase
from regard.data.ratings.splits import TRAIN, VALID, check_has_validation
from regard.layers.item_softmax import all_log_probabilities
from regard.tasks.recommendation import baselines, metrics
from regard.tasks.recommendation.baselines import Interactions, SelectionCase
from regard.tasks.recommendation.config import Config
from regard.tasks.recommendation.metrics import RankingResult
from regard.tasks.recommendation.nearby_items import NearbyItems

Array = NDArray[np.float64]
CaseScorer = Callable[[Sequence[TestCase]], Tensor]  # test cases -> scores of all items (m n)
BATCH_CASES = 256  # test cases scored at a time
MAX_MATRIX_CELLS = 2**27  # users × items up to which baselines are computed
MAX_DENSE_ITEMS = 2**13  # items up to which baselines with a matrix of items × items are computed
NUM_NEGATIVES = 100  # items of a sampled list, without the target
FACTORS = (2, 4, 8, 16, 32)
LIST_METRICS = ("hr", "precision", "recall", "ndcg", "coverage", "novelty")  # of the first items of a list
VARIANT_DESCRIPTIONS = {
    "sampled": "ranked among 100 items sampled uniformly, which is not comparable with a full ranking; otherwise",
    "with_seen": "items chosen before are ranked too, the protocol of RecBole for sequences; otherwise",
    "new_users": "users held out entirely, their last item predicted from their history",
    "new_users_popularity": "popularity for users held out entirely",
    "new_items": "items held out entirely, ranked among each other",
    "new_items_popularity": "popularity, which has no information on items held out entirely",
    "truth": "by the true preferences of the built-in users",
    "popularity": "by the items chosen most often",
    "sequence_knn": "by items chosen near the last items in other histories, with settings chosen on valid and train",
    "ease": "by EASE, a linear item-item model, its regularization and the weight of recent items chosen on valid",
    "item_knn": "by cosine neighbours of items (implicit), their number chosen on valid",
    "factorisation": "by alternating least squares (implicit), for ratings SVD (scipy); chosen on valid",
}


def check_held_out(data: RatingsCollection, config: Config) -> None:
    """Raise an error unless the validation split has events from which the metric can be computed."""
    check_has_validation(data.split_ids, config.split)
    ratings = data.events.ratings
    if config.objective == "ratings" and ratings.min() == ratings.max():
        raise DataError(f"all ratings are {ratings[0]:g}: there is nothing to predict; choose data.objective=next")
    liked = ratings[data.split_ids == VALID] >= config.liked
    if config.objective == "clicks" and liked.all() == liked.any():
        state = "liked" if liked.all() else "not liked"
        raise DataError(
            f"all ratings held out for 'valid' are {state}, so AUC is undefined; change data.liked and data.disliked, "
            "or use split=random"
        )


def signatures(config: Config) -> dict[str, str]:
    """Return how each score is computed."""
    texts = metrics.SIGNATURES | (metrics.SET_SIGNATURES if config.objective == "any" else {})
    values = {"top": config.eval_k, "liked": config.liked, "disliked": config.disliked}
    basic = {
        f"{name}@{config.eval_k}" if name in LIST_METRICS else name: text.format(**values)
        for name, text in texts.items()
    }
    variants = VARIANT_DESCRIPTIONS.items()
    return basic | {f"{variant}_{name}": f"{text}, as {name}" for variant, text in variants for name in basic}


class RecommendationEvaluation:
    """Computes the scores of recommenders and of baselines on the test cases of a collection."""

    def __init__(self, config: Config, data: RatingsCollection, histories: Histories) -> None:
        self.config, self.data, self.histories = config, data, histories

    @cached_property
    def memory(self) -> NearbyItems | None:
        """The counts of the training choices; None without data.memory."""
        weight, num_items = self.config.memory, len(self.data.items.ids)
        if weight and num_items > MAX_DENSE_ITEMS:
            raise ConfigError(
                f"data.memory={weight}: it counts pairs of items, and {num_items:,} items are more than "
                f"{MAX_DENSE_ITEMS:,}; set it to 0"
            )
        return NearbyItems(self._interactions(TRAIN), weight) if weight else None

    def rank_cases(
        self, model: RecommenderModel, test_cases: Sequence[TestCase], candidates: Tensor | None = None
    ) -> RankingResult:
        """Test cases -> ranks of their targets among all items, or among `candidates` (n) bool."""
        results = []
        with eval_mode(model) as device:
            catalog = self.item_catalog(device)
            for batch in _batches(test_cases):
                scores = self._log_probs(model, batch, catalog)
                if candidates is not None:
                    scores = scores.masked_fill(~candidates, -torch.inf)
                results.append(self._rank(scores, batch))
        return metrics.concat_rankings(results)

    def ranking_scores(self, model: RecommenderModel, test_cases: Sequence[TestCase]) -> dict[str, float]:
        """Return the ranking metrics, loss, coverage and novelty of the lists of test cases."""
        ranking, top = self.rank_cases(model, test_cases), self.config.eval_k
        scores = self._summarize(ranking.ranks, test_cases) | {"loss": float(ranking.losses.mean())}
        if self.config.objective != "any":
            metrics.record_ranking(ranking.ranks, top=top)
        return scores | metrics.coverage_and_novelty(ranking.top_items, self.data.item_counts, top=top)

    def rating_metrics(self, model: RecommenderModel, test_cases: Sequence[TestCase]) -> dict[str, float]:
        """Return AUC and log loss of liked or not; with objective=ratings, RMSE and AUC."""
        logits = self.predict_ratings(model, test_cases)
        ratings = self.data.events.ratings[[case.row for case in test_cases]]
        if self.config.objective == "clicks":
            liked = ratings >= self.config.liked
            metrics.record_auc(logits, liked)
            return {"auc": metrics.auc(logits, liked), "log_loss": metrics.log_loss(logits, liked)}
        low, high = self.data.scale
        predictions = low + (high - low) / (1 + np.exp(-logits))
        is_clear = (ratings >= self.config.liked) | (ratings <= self.config.disliked)
        auc = metrics.auc(logits[is_clear], ratings[is_clear] >= self.config.liked)
        metrics.record_rmse(predictions, ratings)
        return {"rmse": metrics.rmse(predictions, ratings)} | ({} if np.isnan(auc) else {"auc": auc})

    def extra_metrics(self, model: RecommenderModel, split_id: int) -> dict[str, float]:
        """Return all scores that `regard evaluate` prints in addition to the task's own."""
        if self.config.ranks_items:
            is_next = self.config.objective == "next"
            other_protocols = (
                self.sampled_metrics(model, split_id) | self.with_seen_metrics(model, split_id) if is_next else {}
            )
            return (
                other_protocols
                | self.cold_start_metrics(model)
                | self.oracle_metrics(split_id)
                | self.popularity_metrics(split_id)
                | self.baseline_metrics(split_id)
            )
        try:
            return self._svd_metrics(split_id)
        except MissingExtra:
            return {}

    def sampled_metrics(self, model: RecommenderModel, split_id: int) -> dict[str, float]:
        """Return ranking metrics among a hundred items sampled uniformly, as in many papers.

        They are much higher than those of a full ranking, and order models differently.
        """
        generator = torch.Generator().manual_seed(self.config.seed)
        num_items, ranks = len(self.data.items.ids), []
        with eval_mode(model) as device:
            catalog = self.item_catalog(device)
            for batch in _batches(self.histories.test_cases(split_id)):
                scores = self._log_probs(model, batch, catalog)
                targets, previous = self.target_items(batch), self.seen_items(batch)
                rows = torch.arange(len(batch))
                noise = torch.rand(len(batch), num_items, generator=generator)
                noise[rows, targets] = -1  # the target and items chosen before are not sampled
                noise[rows[:, None].expand_as(previous)[previous >= 0], previous[previous >= 0]] = -1
                sampled = noise.topk(min(NUM_NEGATIVES, num_items), dim=1)
                negatives = scores.gather(1, sampled.indices).masked_fill(sampled.values < 0, -torch.inf)
                ranks.append(rank_among(scores[rows, targets], negatives))
        return self._ranking_metrics("sampled", torch.cat(ranks), self.histories.test_cases(split_id))

    def with_seen_metrics(self, model: RecommenderModel, split_id: int) -> dict[str, float]:
        """Return ranking metrics among all items, those chosen before included, as RecBole computes them for sequences.

        They are lower than those without such items if users rarely choose an item twice.
        """
        cases, ranks = self.histories.test_cases(split_id), []
        with eval_mode(model) as device:
            catalog = self.item_catalog(device)
            for batch in _batches(cases):
                nothing = torch.empty(len(batch), 0, dtype=torch.long)
                scores, targets = self._log_probs(model, batch, catalog), self.target_items(batch)
                ranks.append(metrics.rank_targets(scores, targets, nothing, top=self.config.eval_k).ranks)
        return self._ranking_metrics("with_seen", torch.cat(ranks), cases)

    def cold_start_metrics(self, model: RecommenderModel) -> dict[str, float]:
        """Return ranking metrics of users and items that are held out entirely, and those of popularity."""
        scores: dict[str, float] = {}
        popularity = torch.from_numpy(self.data.item_counts).float()
        cold_items = torch.from_numpy(self.data.items.held_out)
        groups = {
            "new_users": (self.histories.new_user_cases(), None),
            "new_items": (self.histories.new_item_cases(), cold_items),
        }
        for name, (cases, candidates) in groups.items():
            if not cases:
                continue
            ranks = self.rank_cases(model, cases, candidates).ranks
            counts = popularity if candidates is None else popularity.masked_fill(~candidates, -torch.inf)
            baseline = self.baseline_ranks(cases, partial(_same_scores, counts))
            scores |= self._ranking_metrics(name, ranks, cases)
            scores |= self._ranking_metrics(f"{name}_popularity", baseline, cases)
        return scores

    def oracle_metrics(self, split_id: int) -> dict[str, float]:
        """Return ranking metrics of the true preferences; empty if the data is not synthetic."""
        config = self.config
        if config.path is not None:
            return {}
        truth = films.generate_profiles(config.users, config.items, seed=config.seed)[2]

        def score(cases: Sequence[TestCase]) -> Tensor:
            histories = [self.histories.history_before(case) for case in cases]
            if self.config.objective == "any":  # the last item is hidden
                return torch.from_numpy(truth.taste[[case.user for case in cases]])
            moods = [
                truth.mood[self.data.events.items[rows[-1]]] if len(rows) else 0.0 * truth.mood[0] for rows in histories
            ]
            return torch.from_numpy(truth.taste[[case.user for case in cases]] + np.stack(moods))

        cases = self.histories.test_cases(split_id)
        return self._ranking_metrics("truth", self.baseline_ranks(cases, score), cases)

    def popularity_metrics(self, split_id: int) -> dict[str, float]:
        """Return ranking metrics of the items chosen most often in earlier splits."""
        observed = self._interactions(split_id - 1)
        counts = torch.from_numpy(np.bincount(observed.items, minlength=observed.shape[1])).float()
        cases = self.histories.test_cases(split_id)
        return self._ranking_metrics("popularity", self.baseline_ranks(cases, partial(_same_scores, counts)), cases)

    def baseline_metrics(self, split_id: int) -> dict[str, float]:
        """Return ranking metrics of baselines on the same test cases; without those whose library is missing."""
        num_users, num_items = len(self.data.users.ids), len(self.data.items.ids)
        if num_users * num_items > MAX_MATRIX_CELLS:
            return {}
        scores: dict[str, float] = {}
        for name in baselines.BASELINES:
            if name in baselines.DENSE_BASELINES and num_items > MAX_DENSE_ITEMS:
                continue
            if name == "sequence_knn" and self.config.objective != "next":
                continue
            with suppress(MissingExtra):
                scores |= self._one_baseline_metrics(name, split_id)
        return scores

    def _one_baseline_metrics(self, name: str, split_id: int) -> dict[str, float]:
        """Like a model, a baseline is fitted to all earlier splits: for testing, to the validation ratings too."""
        observed, cases = self._interactions(split_id - 1), self.histories.test_cases(split_id)
        count = baselines.SELECTION_CHOICES.get(name, 1)
        selection = [self._selection_case(skipped) for skipped in range(count)]
        scores = baselines.baseline_scores(name, selection, observed, seed=self.config.seed)
        return self._ranking_metrics(name, self.baseline_ranks(cases, partial(_user_rows, scores)), cases)

    def _selection_case(self, skipped: int) -> SelectionCase:
        """Return the validation cases; if choices are skipped, the earlier training choice of each user."""
        cases, train = self.histories.test_cases(VALID), self._interactions(TRAIN)
        if skipped:
            rows = np.flatnonzero(self.data.split_ids <= TRAIN)
            users, items = self.data.events.users[rows], self.data.events.items[rows]
            ends = np.cumsum(np.bincount(users, minlength=train.shape[0]))
            ages = ends[users] - 1 - np.arange(len(rows))
            cases = [TestCase(int(users[index]), int(rows[index])) for index in np.flatnonzero(ages == skipped - 1)]
            train = Interactions(users[ages >= skipped], items[ages >= skipped], train.shape)

        def ndcg(scores: baselines.Scores) -> float:
            if not cases:
                return 0.0
            ranks = self.baseline_ranks(cases, partial(_user_rows, scores))
            return self._summarize(ranks, cases)[f"ndcg@{self.config.eval_k}"]

        return SelectionCase(train, ndcg)

    def _svd_metrics(self, split_id: int) -> dict[str, float]:
        """Return the metrics of a matrix factorisation of the ratings.

        The number of factors and the mapping from ratings to probabilities (scikit-learn's logistic regression) are
        chosen on the validation ratings.
        """
        events, split_ids, min_liked = self.data.events, self.data.split_ids, self.config.liked
        train, valid, test = split_ids == TRAIN, split_ids == VALID, split_ids == split_id
        shape = len(self.data.users.ids), len(self.data.items.ids)
        train_ratings = events.users[train], events.items[train], events.ratings[train]

        def valid_rmse(predictions: Array) -> float:
            return metrics.rmse(predictions[events.users[valid], events.items[valid]], events.ratings[valid])

        factors = [size for size in FACTORS if size < min(shape)]
        if not factors or not valid.any() or not test.any():
            return {}
        candidates = (
            baselines.fit_biased_svd(*train_ratings, shape=shape, factors=size).predictions for size in factors
        )
        best = min(candidates, key=valid_rmse)
        predictions, ratings = best[events.users[test], events.items[test]], events.ratings[test]
        scores = (
            {"factorisation_rmse": metrics.rmse(predictions, ratings)} if self.config.objective == "ratings" else {}
        )
        is_clear = (ratings >= min_liked) | (ratings <= self.config.disliked)
        test_liked, valid_liked = ratings[is_clear] >= min_liked, events.ratings[valid] >= min_liked
        if any(liked.all() == liked.any() for liked in (test_liked, valid_liked)):  # all or none: AUC is undefined
            return scores
        regression: Any = require("sklearn.linear_model", extra="recommendation").LogisticRegression()
        regression.fit(best[events.users[valid], events.items[valid]][:, None], valid_liked)
        logits = regression.decision_function(predictions[is_clear][:, None])
        return scores | {
            "factorisation_auc": metrics.auc(predictions[is_clear], test_liked),
            "factorisation_log_loss": metrics.log_loss(logits, test_liked),
        }

    def predict_ratings(self, model: RecommenderModel, test_cases: Sequence[TestCase]) -> Array:
        """Test cases -> the predicted rating (m) of each user for the target, as a logit."""
        parts = []
        with eval_mode(model) as device:
            catalog = self.item_catalog(device)
            for batch in _batches(test_cases):
                users = map_tensors(self.histories.test_inputs(batch), lambda x: x.to(device))
                targets = self.target_items(batch).to(device)[:, None]
                parts.append(model.rating_logits(users, catalog, targets)[:, 0].float().cpu())
        return torch.cat(parts).double().numpy()

    def baseline_ranks(self, test_cases: Sequence[TestCase], score_fn: CaseScorer) -> Tensor:
        """Return the ranks (m) of the targets by the scores of a baseline."""
        return torch.cat([self._rank(score_fn(batch), batch).ranks for batch in _batches(test_cases)])

    def item_catalog(self, device: torch.device) -> ItemCatalog:
        """Return all items, on a device."""
        catalog: ItemCatalog = map_tensors(self.histories.catalog, lambda x: x.to(device))
        return catalog

    def target_items(self, test_cases: Sequence[TestCase]) -> Tensor:
        """Return the indices (m) of the items to predict."""
        return torch.from_numpy(self.data.events.items[[case.row for case in test_cases]])

    def seen_items(self, test_cases: Sequence[TestCase]) -> Tensor:
        """Return the indices (m s) of the items that each user chose before, padded with -1."""
        histories = [self.histories.history_before(case) for case in test_cases]
        items = np.full((len(histories), max(map(len, histories), default=0)), -1)
        for row, history in enumerate(histories):
            items[row, : len(history)] = self.data.events.items[history]
        return torch.from_numpy(items)

    def _log_probs(self, model: RecommenderModel, test_cases: Sequence[TestCase], catalog: ItemCatalog) -> Tensor:
        """Test cases -> log p (m n) of all items, from the state of each user at that moment."""
        if self.config.objective == "any":  # the cases of a user have the same history: it is read once
            firsts = list({case.user: case for case in reversed(test_cases)}.values())
            rows = {case.user: row for row, case in enumerate(firsts)}
            return self._last_log_probs(model, firsts, catalog)[[rows[case.user] for case in test_cases]]
        return self._last_log_probs(model, test_cases, catalog)

    def _last_log_probs(self, model: RecommenderModel, test_cases: Sequence[TestCase], catalog: ItemCatalog) -> Tensor:
        users = map_tensors(self.histories.test_inputs(test_cases), lambda x: x.to(catalog.ids.device))
        states = last_states(model, users, catalog)
        log_probs = all_log_probabilities(model, states, catalog).float().cpu()
        return log_probs if self.memory is None else self.memory.adjust(log_probs, users)

    def _rank(self, scores: Tensor, test_cases: Sequence[TestCase]) -> RankingResult:
        targets, previous = self.target_items(test_cases), self.seen_items(test_cases)
        return metrics.rank_targets(scores, targets, previous, top=self.config.eval_k)

    def _summarize(self, ranks: Tensor, test_cases: Sequence[TestCase]) -> dict[str, float]:
        """Ranks of the targets of test cases -> metrics: of each case, or for objective=any of each user's list."""
        if self.config.objective == "any":
            return metrics.set_metrics(ranks, np.array([case.user for case in test_cases]), top=self.config.eval_k)
        return metrics.ranking_metrics(ranks, top=self.config.eval_k)

    def _ranking_metrics(self, variant: str, ranks: Tensor, test_cases: Sequence[TestCase]) -> dict[str, float]:
        scores = self._summarize(ranks, test_cases)
        return {f"{variant}_{name}": value for name, value in scores.items()}

    def _interactions(self, last_split: int) -> Interactions:
        """Return all choices of the splits up to `last_split`."""
        rows = self.data.split_ids <= last_split
        shape = len(self.data.users.ids), len(self.data.items.ids)
        return Interactions(self.data.events.users[rows], self.data.events.items[rows], shape)


def _batches(test_cases: Sequence[TestCase]) -> list[Sequence[TestCase]]:
    return [test_cases[low : low + BATCH_CASES] for low in range(0, len(test_cases), BATCH_CASES)]


def _same_scores(scores: Tensor, test_cases: Sequence[TestCase]) -> Tensor:
    """Return the same scores (n) for every test case."""
    return scores.expand(len(test_cases), -1)


def _user_rows(scores: baselines.Scores, test_cases: Sequence[TestCase]) -> Tensor:
    """Return the rows of a matrix of scores (u n) for the users of test cases."""
    return torch.from_numpy(np.ascontiguousarray(scores[[case.user for case in test_cases]]))
