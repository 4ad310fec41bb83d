"""Inspection of recommendations: a user, the list with its reasons, other users, and items in two dimensions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.core.pca import pca_2d
from regard.core.protocols.recommender import ItemCatalog, RecommenderModel, UserBatch
from regard.data.ratings.dataset import RatingsCollection
from regard.data.ratings.user_query import UserQuery
from regard.layers.item_softmax import all_log_probabilities
from regard.tasks.recommendation import explain
from regard.tasks.recommendation.config import Options
from regard.tasks.recommendation.recommend import ListRecommender, RecommendationResult

NUM_OTHER_USERS = 11  # other users shown next to the user
MAX_MAP_ITEMS = 60  # items of a map of users × items
MAX_POINTS = 400  # items in two dimensions
MAX_TITLE_SUGGESTIONS = 2000  # titles that a page suggests
MAX_FIELD_VALUES = 60  # values of a profile field that a page suggests
MAX_PAGE_REASONS = 4  # reasons per item


class EmbeddingRecommender(RecommenderModel, Protocol):
    """A recommender that represents items by vectors."""

    def items(self, catalog: ItemCatalog) -> Tensor:
        """Items -> their vectors (n d)."""


def build_inspectable(
    recommender: ListRecommender,
    model: EmbeddingRecommender,
    query: UserQuery,
    options: Options,
    catalog: ItemCatalog,
) -> Inspectable:
    """A user -> axes of profile, history, users and items, the list, and a replay."""
    start_time = time.perf_counter()
    result = recommender.recommend_items(model, query, options, catalog)
    seconds = time.perf_counter() - start_time
    data, predicts_items = recommender.data, recommender.config.ranks_items
    item_indices = _map_items(result, data)
    map_catalog = catalog.take(item_indices)
    other_states, other_names = _other_users(recommender, model, query, catalog)
    name = "a new user" if query.user is None else f"user {data.users.ids[query.user]}"

    def logits(users: UserBatch) -> Tensor:
        if not predicts_items:
            return model.rating_logits(users, catalog, item_indices[None])
        states = model.states(users, catalog)[:, -1]
        model.context(torch.cat([states, other_states]), map_catalog)  # so that attention to the items is recorded
        return all_log_probabilities(model, states, map_catalog)

    evidence = tuple(Item(text, special=not i) for i, text in enumerate(result.names))
    moments = ("before the first", *result.names[1 + len(model.fields) :])
    items = tuple(Item(data.items.titles[item]) for item in item_indices.tolist())
    axes = {
        "history": Axis(evidence, "profile and history"),
        "moments": Axis(tuple(map(Item, moments)), "moments"),
        "users": Axis(tuple(map(Item, (name, *other_names))), "users"),
        "items": Axis(items, "items"),
        "judged": Axis(items, "items that are judged"),
    }
    return Inspectable(
        title=name,
        axes=axes,
        query_axes={key: (AxisRef(key),) for key in ("history", "moments", "users", "judged")},
        key_axes={key: (AxisRef(key),) for key in ("history", "items")},
        outputs=_outputs(result, data, has_log_probs=recommender.config.objective != "ratings"),
        replay=lambda: logits(result.users),
        predicted_ids=torch.tensor([0]),
        seconds=seconds,
        ablations={"history": lambda: _ablate_evidence(result, logits, model)},
        views=("recommendation",),
        extra={"recommendation": _page_data(data, model, query, result, catalog)},
    )


def _map_items(result: RecommendationResult, data: RatingsCollection) -> Tensor:
    """Return the items of a map: the recommended items, then the most popular ones."""
    popular = np.argsort(-data.item_counts, kind="stable")[:MAX_MAP_ITEMS].tolist()
    items = list(dict.fromkeys([*result.items.tolist(), *popular]))[: max(MAX_MAP_ITEMS, len(result.items))]
    return torch.tensor(items)


def spread_users(count: int) -> list[int]:
    """Return the indices of users among `count` that are shown next to a user, one more than are shown."""
    return list(dict.fromkeys(np.linspace(0, count - 1, min(NUM_OTHER_USERS + 1, count)).astype(int).tolist()))


def _other_users(
    recommender: ListRecommender, model: RecommenderModel, query: UserQuery, catalog: ItemCatalog
) -> tuple[Tensor, list[str]]:
    """Return the states (m d) of other users, and their names."""
    data = recommender.data
    users = [user for user in spread_users(len(data.users.ids)) if user != query.user][:NUM_OTHER_USERS]
    offsets, max_history = data.user_offsets, recommender.config.max_history
    rows = [np.arange(offsets[user], offsets[user + 1])[-max_history:] for user in users]
    batch = recommender.histories.user_batch(users, rows)
    states = model.states(batch, catalog)[torch.arange(len(users)), batch.lengths]
    return states, [f"user {data.users.ids[user]}" for user in users]


def _ablate_evidence(
    result: RecommendationResult, logits: Callable[[UserBatch], Tensor], model: RecommenderModel
) -> Tensor:
    """Return the scores (m 1 v) without each piece of evidence in turn; "anyone" cannot be removed."""
    ablated = [explain.remove_evidence(result.users, index, model.fields) for index in range(1, len(result.names))]
    return torch.stack([logits(users) for users in (result.users, *ablated)])


def _outputs(result: RecommendationResult, data: RatingsCollection, *, has_log_probs: bool) -> tuple[Output, ...]:
    """Return the recommended items, with log p if the scores are not ratings."""
    titles = [data.items.titles[item] for item in result.items.tolist()]
    if not has_log_probs:
        return tuple(map(Output, titles))
    scores = result.scores.tolist()
    return tuple(
        Output(title, score, score, (Token(title, score),)) for title, score in zip(titles, scores, strict=True)
    )


def _page_data(
    data: RatingsCollection,
    model: EmbeddingRecommender,
    query: UserQuery,
    result: RecommendationResult,
    catalog: ItemCatalog,
) -> dict[str, Any]:
    """Return the data of the page: the profile with its possible values, the history, the list, items as points."""
    fields = [
        {
            "name": field.name,
            "kind": field.kind,
            "value": query.profile.get(field.name, ""),
            "values": field.values[:MAX_FIELD_VALUES],
        }
        for field in data.users.fields
    ]
    recommended = [
        {
            "title": data.items.titles[item],
            "score": float(score),
            "about": data.items.profile(item),
            "without": explanation.rank_without,
            "reasons": [reason._asdict() for reason in explanation.reasons[:MAX_PAGE_REASONS]],
        }
        for item, score, explanation in zip(result.items.tolist(), result.scores, result.explanations, strict=True)
    ]
    history = result.users.history[0].tolist()
    popular = np.argsort(-data.item_counts).tolist()
    pictured = list(dict.fromkeys([*result.items.tolist(), *history, *popular]))[:MAX_POINTS]
    vectors = torch.nn.functional.normalize(model.items(catalog.take(torch.tensor(pictured))), dim=-1)
    points = np.round(pca_2d(vectors.detach().float().numpy())[0], 4).tolist()
    return {
        "user": "" if query.user is None else data.users.ids[query.user],
        "fields": fields,
        "history": [data.items.titles[item] for item in history],
        "list": recommended,
        "remarks": list(query.remarks),
        "titles": list(data.items.titles[:MAX_TITLE_SUGGESTIONS]),
        "items": {
            "titles": [data.items.titles[item] for item in pictured],
            "points": points,
            "recommended": len(result.items),
            "seen": len(history),
        },
    }
