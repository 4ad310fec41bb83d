"""Recommendation lists with reasons, by exact search or by a nearest-neighbour index.

The index is HNSW (Malkov and Yashunin 2018), by usearch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.core.protocols.recommender import ItemCatalog, RecommenderModel, UserBatch, last_states
from regard.core.task import Prediction
from regard.data import batching
from regard.data.ratings import profiles
from regard.data.ratings.dataset import RatingsCollection
from regard.data.ratings.history_batches import Histories
from regard.data.ratings.user_query import UserQuery
from regard.layers.item_softmax import TopItems, log_partition, top_items
from regard.tasks.recommendation import explain
from regard.tasks.recommendation.config import Config, Options
from regard.tasks.recommendation.explain import Explanation, ItemScorer, StateScorer
from regard.tasks.recommendation.nearby_items import NearbyItems

BATCH_ITEMS = 4096  # items scored at a time
BATCH_USERS = 256  # users ranked at a time
NO_EXPLANATION = Explanation((), None)


class RecommendationResult(NamedTuple):
    """The recommendations for one user."""

    users: UserBatch
    names: tuple[str, ...]  # of the evidence: anyone, the fields of the profile, the items of the history
    excluded: Tensor  # (s) indices of items that are not recommended
    items: Tensor  # (k) indices of recommended items, best first
    scores: Tensor  # (k) log p, or predicted ratings
    explanations: list[Explanation]


class RecommendedItem(NamedTuple):
    """A recommended item, the value of a prediction."""

    item: str  # its id
    title: str
    score: float
    explanation: Explanation


class ListRecommender:
    """Ranks the items of a collection for one user, with reasons."""

    def __init__(
        self,
        config: Config,
        data: RatingsCollection,
        histories: Histories,
        *,
        span_days: float,
        memory: NearbyItems | None = None,
    ) -> None:
        self.config, self.data, self.histories, self.span_days = config, data, histories, span_days
        self.memory = memory

    def predict(
        self, model: RecommenderModel, queries: Sequence[UserQuery], options: Options, catalog: ItemCatalog
    ) -> list[list[Prediction]]:
        """Users -> a prediction per recommended item, best first; the items of several users are ranked at once."""
        if options.index != "exact" or not self.config.ranks_items or self.memory is not None:
            results = (self.recommend_items(model, query, options, catalog) for query in queries)
            return [self._explained(query, options, result) for query, result in zip(queries, results, strict=True)]
        best = self._best_items(model, queries, options, catalog)
        if not options.reasons:
            return [self._without_reasons(query, items) for query, items in zip(queries, best, strict=True)]
        return [
            self._explained(query, options, self.recommend_items(model, query, options, catalog, best=items))
            for query, items in zip(queries, best, strict=True)
        ]

    def _best_items(
        self, model: RecommenderModel, queries: Sequence[UserQuery], options: Options, catalog: ItemCatalog
    ) -> list[TopItems]:
        """Users -> the best items of each; users with histories of similar lengths are in the same batch."""
        chosen = [self.chosen_items(query) for query in queries]
        stored = [query.user is not None and query.uses_stored_history for query in queries]
        order = sorted(range(len(queries)), key=lambda index: (stored[index], len(chosen[index])))
        best: dict[int, TopItems] = {}
        for _, group in groupby(order, key=stored.__getitem__):
            indices = list(group)
            for low in range(0, len(indices), BATCH_USERS):
                batch = indices[low : low + BATCH_USERS]
                users = self._user_batch([queries[index] for index in batch])
                seen = [[] if options.include_seen else chosen[index] for index in batch]
                excluded = batching.pad(seen, -1).tokens
                states = last_states(model, users, catalog)
                top = top_items(model, states, catalog, count=max(0, options.n), excluded=excluded)
                for index, items, scores, left_out in zip(batch, top.indices, top.scores, seen, strict=True):
                    count = max(0, min(options.n, len(catalog.ids) - len(left_out)))
                    best[index] = TopItems(items[:count], scores[:count])
        return [best[index] for index in range(len(queries))]

    def _explained(self, query: UserQuery, options: Options, result: RecommendationResult) -> list[Prediction]:
        rows = zip(result.items.tolist(), result.scores.tolist(), result.explanations, strict=True)
        return [
            self._to_prediction(query, item, score, explanation, rank=rank, num_reasons=options.reasons)
            for rank, (item, score, explanation) in enumerate(rows, start=1)
        ]

    def _without_reasons(self, query: UserQuery, best: TopItems) -> list[Prediction]:
        return [
            self._to_prediction(query, item, score, NO_EXPLANATION)
            for item, score in zip(best.indices.tolist(), best.scores.tolist(), strict=True)
        ]

    def _to_prediction(
        self,
        query: UserQuery,
        item: int,
        score: float,
        explanation: Explanation,
        *,
        rank: int = 0,
        num_reasons: int = 0,
    ) -> Prediction:
        title, item_id = self.data.items.titles[item], self.data.items.ids[item]
        because = explain.format_reasons(explanation, rank, num_reasons)
        data = {
            "item": item_id,
            "title": title,
            "reasons": [reason._asdict() for reason in explanation.reasons[:num_reasons]],
            "rank_without": explanation.rank_without,
        }
        value = RecommendedItem(item_id, title, score, explanation)
        text = f"{title}  ({because})" if because else title
        log_p = None if self.config.objective == "ratings" else score  # a rating is not a probability
        return Prediction(text, log_p, score, value=value, remarks=query.remarks, data=data)

    def recommend_items(
        self,
        model: RecommenderModel,
        query: UserQuery,
        options: Options,
        catalog: ItemCatalog,
        *,
        best: TopItems | None = None,
    ) -> RecommendationResult:
        """Return the best items for one user, with their reasons; `best` are the items if they are known."""
        users, chosen = self.user_batch(query)
        scorer = self.item_scorer(model, catalog)
        excluded = torch.tensor([] if options.include_seen else chosen, dtype=torch.long)
        count = max(0, min(options.n, len(catalog.ids) - len(excluded)))
        if best is not None:
            items, scores = best
        elif options.index == "approximate":
            if self.memory is not None:
                raise ConfigError("index=approximate: it does not use data.memory of this run; leave it out")
            if not self.config.ranks_items:
                raise ConfigError(
                    f"index=approximate: it ranks items, but this run was trained with data.objective="
                    f"{self.config.objective}; leave it out"
                )
            states = last_states(model, users, catalog)
            nearest = approximate_top_items(model, states, catalog, count=count + len(excluded))
            is_allowed = ~torch.isin(nearest.indices[0], excluded)
            items, scores = nearest.indices[0][is_allowed][:count], nearest.scores[0][is_allowed][:count]
        elif self.memory is not None:
            scores, items = scorer(users)[0].index_fill(0, excluded, -torch.inf).topk(count)
        elif self.config.ranks_items:
            states = last_states(model, users, catalog)
            top = top_items(model, states, catalog, count=count, excluded=excluded[None])
            items, scores = top.indices[0], top.scores[0]
        else:
            logits, items = scorer(users)[0].index_fill(0, excluded, -torch.inf).topk(count)
            scores = self.to_rating(logits)
        names = self.evidence_names(model, query, users)
        explanations = explain.explain(
            model,
            users,
            catalog,
            scorer=scorer,
            items=items if options.reasons else items[:0],
            names=names,
            excluded=excluded,
        ) or [NO_EXPLANATION] * len(items)
        return RecommendationResult(users, names, excluded, items, scores, explanations)

    def user_batch(self, query: UserQuery) -> tuple[UserBatch, Sequence[int]]:
        """A query -> a batch of one user, and the indices of all items the user chose."""
        return self._user_batch([query]), self.chosen_items(query)

    def chosen_items(self, query: UserQuery) -> Sequence[int]:
        """Return the indices of all items that a user chose, oldest first."""
        if query.user is None or not query.uses_stored_history:
            return query.history
        items: list[int] = self.data.events.items[slice(*self.data.user_offsets[query.user : query.user + 2])].tolist()
        return items

    def _user_batch(self, queries: Sequence[UserQuery]) -> UserBatch:
        """Queries -> a batch of users; all of them use stored histories, or none."""
        if not queries[0].uses_stored_history or queries[0].user is None:
            return explain.join_users([self._described_user(query) for query in queries])
        users = [query.user for query in queries if query.user is not None]
        starts, stops = self.data.user_offsets[users], self.data.user_offsets[np.array(users) + 1]
        starts = np.maximum(starts, stops - self.config.max_history)
        return self.histories.user_batch(users, [np.arange(*span) for span in zip(starts, stops, strict=True)])

    def _described_user(self, query: UserQuery) -> UserBatch:
        """A query with a history of its own -> a batch of one user."""
        chosen = query.history[-self.config.max_history :]
        encoded = torch.from_numpy(profiles.encode(self.data.users.fields, [query.profile]))
        history = torch.tensor([list(chosen)], dtype=torch.long)
        rating = 0.0 if self.config.ranks_items else 1.0  # a user who names an item likes it
        ratings = torch.full((1, len(chosen)), rating)
        now = 0.0 if self.config.objective == "any" else self.span_days
        times = torch.full((1, len(chosen)), now)
        ids = torch.zeros(1, dtype=torch.long)
        return UserBatch(ids, encoded, history, ratings, times, torch.tensor([len(chosen)]))

    def evidence_names(self, model: RecommenderModel, query: UserQuery, users: UserBatch) -> tuple[str, ...]:
        """Return the names of the evidence: anyone, the fields of the profile, the items of the history."""
        fields = []
        for field in self.data.users.fields[: len(model.fields)]:
            value = query.profile.get(field.name, "")
            fields.append(f"{field.name} {value}" if value else f"{field.name} not specified")
        return ("anyone", *fields, *(self.data.items.titles[item] for item in users.history[0].tolist()))

    def item_scorer(self, model: RecommenderModel, catalog: ItemCatalog) -> ItemScorer | StateScorer:
        """Return the function that scores items: log p of a choice, or the predicted rating as a logit."""
        if self.memory is not None:
            memory, model_scorer = self.memory, StateScorer(model, catalog)
            return lambda users: memory.adjust(model_scorer(users), users)
        if self.config.ranks_items:
            return StateScorer(model, catalog)
        items = torch.arange(len(catalog.ids), device=catalog.ids.device)

        def rating_logits(users: UserBatch) -> Tensor:
            batch_size = len(users.lengths)
            parts = [
                model.rating_logits(users, catalog, part.expand(batch_size, -1)) for part in items.split(BATCH_ITEMS)
            ]
            return torch.cat(parts, dim=1)

        return rating_logits

    def to_rating(self, logits: Tensor) -> Tensor:
        """Rating logits -> predicted ratings, or log p that the items are liked."""
        if self.config.objective == "clicks":
            return torch.nn.functional.logsigmoid(logits)
        low, high = self.data.scale
        return low + (high - low) * logits.sigmoid()


class ItemIndex:
    """Approximate nearest-neighbour index: keys (n e) -> the items with the largest inner product with a query."""

    def __init__(self, keys: Tensor, *, connectivity: int = 16, expansion: int = 96) -> None:
        usearch: Any = require("usearch.index", extra="recommendation")
        self._keys = keys.detach().float().cpu().numpy()
        # One more feature gives all keys the same length, so that cosine distances rank like inner products.
        longest = float(np.linalg.norm(self._keys, axis=1).max()) if len(self._keys) else 1.0
        rest = np.sqrt(np.maximum(longest**2 - (self._keys**2).sum(axis=1, keepdims=True), 0))
        self._index = usearch.Index(
            ndim=self._keys.shape[1] + 1,
            metric="cos",
            dtype="f32",
            connectivity=connectivity,
            expansion_add=expansion,
            expansion_search=expansion,
        )
        self._index.add(np.arange(len(self._keys)), np.hstack([self._keys, rest]).astype(np.float32))

    def search(self, queries: Tensor, count: int) -> TopItems:
        """Queries (m e) -> the `count` best items each, ranked by their exact inner products."""
        vectors = queries.detach().float().cpu().numpy()
        padded = np.hstack([vectors, np.zeros((len(vectors), 1))]).astype(np.float32)
        count = min(count, len(self._keys))
        indices = np.asarray(self._index.search(padded, count).keys, dtype=np.int64).reshape(len(vectors), -1)
        scores = np.einsum("me,mke->mk", vectors, self._keys[indices])
        order = np.argsort(-scores, axis=1, kind="stable")
        tensor = queries.new_tensor
        return TopItems(
            tensor(np.take_along_axis(indices, order, 1)).long(), tensor(np.take_along_axis(scores, order, 1))
        )


def approximate_top_items(model: RecommenderModel, states: Tensor, catalog: ItemCatalog, *, count: int) -> TopItems:
    """Return the `count` approximately best items of each state, with their exact log p."""
    index, queries = build_index(model, states, catalog)
    nearest = index.search(queries, count)
    return TopItems(nearest.indices, nearest.scores - log_partition(model, states, catalog))


def build_index(model: RecommenderModel, states: Tensor, catalog: ItemCatalog) -> tuple[ItemIndex, Tensor]:
    """Return an index of a model's items, and the queries of the states; the score must be one inner product."""
    vectors = model.query_key_vectors(states, catalog)
    if vectors is None or len(vectors[0]) != 1:
        raise ConfigError(
            "index=approximate: needs one head and a score that is an inner product (model.choice_heads=1, "
            "model.score=dot); index=exact works for every model"
        )
    queries, keys = vectors
    return ItemIndex(keys[0]), queries[0]
