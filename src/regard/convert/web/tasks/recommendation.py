"""Recommendation in the browser: users, items and ratings of a run, and programs for states, scores and reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.convert.web.trace import Constants, trace
from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.data.ratings.dataset import EntityTable, RatingsCollection
from regard.data.ratings.user_query import names_of_items
from regard.layers.item_softmax import all_log_probabilities
from regard.models.recommender import Recommender
from regard.tasks.recommendation import inspect
from regard.tasks.recommendation.config import Options
from regard.training.load_run import LoadedRun

EXAMPLE_ITEMS, EXAMPLE_STATES = 13, 17  # sizes that no layer has, because equal sizes share a symbol
MAX_EVENTS = 200_000  # ratings in a page


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the programs, and the users, items and ratings that the page needs."""
    model, task = parts.model, parts.task
    recommendation: Any = task
    config, data = recommendation.config, recommendation.data
    if not isinstance(model, Recommender):
        raise ConfigError(f"web: recommendation with {parts.recipe.model.name} is not supported; use recommender")
    if not config.ranks_items:
        raise ConfigError(f"web: data.objective={config.objective} is not supported; use next or any")
    if config.memory:
        raise ConfigError(f"web: data.memory={config.memory} is not supported; use a run without it")
    if len(data.events.items) > MAX_EVENTS:
        raise ConfigError(
            f"web: {len(data.events.items):,} ratings are not supported; a page has at most {MAX_EVENTS:,}"
        )
    defaults = Options()
    kinds = {"n": "integer", "reasons": "integer", "include_seen": "boolean"}
    properties = {name: {"type": kind, "default": getattr(defaults, name)} for name, kind in kinds.items()}
    return {
        "programs": _programs(model, recommendation.evaluation.item_catalog(torch.device("cpu")), data, constants),
        "users": _users(data, len(model.fields)),
        "items": {
            "titles": list(data.items.titles),
            "about": [data.items.profile(index) for index in range(len(data.items.titles))],
            "names": names_of_items(data.items),
            "popular": np.argsort(-data.item_counts, kind="stable").tolist(),
        },
        "histories": _histories(recommendation),
        "others": inspect.spread_users(len(data.users.ids)),
        "maxHistory": config.max_history,
        "newTime": 0.0 if config.objective == "any" else recommendation.recommender.span_days,
        "limits": {
            "otherUsers": inspect.NUM_OTHER_USERS,
            "mapItems": inspect.MAX_MAP_ITEMS,
            "points": inspect.MAX_POINTS,
            "titles": inspect.MAX_TITLE_SUGGESTIONS,
            "values": inspect.MAX_FIELD_VALUES,
            "reasons": inspect.MAX_PAGE_REASONS,
        },
        "options": {"properties": properties},
    }


def _programs(
    model: Recommender, catalog: ItemCatalog, data: RatingsCollection, constants: Constants
) -> dict[str, Any]:
    length = EXAMPLE_ITEMS
    user = [
        torch.zeros(1, dtype=torch.long),
        torch.zeros(1, sum(model.fields)),
        torch.arange(length)[None] % len(data.items.ids),
        torch.zeros(1, length),
        torch.zeros(1, length),
    ]

    def states(*values: Tensor) -> list[Tensor]:
        return [model.states(_batch(*values), catalog)[:, -1]]

    def contributions(*values: Tensor) -> list[Tensor]:
        return list(model.state_contributions(_batch(*values), catalog))

    def scores(vectors: Tensor) -> list[Tensor]:
        return [all_log_probabilities(model, vectors, catalog)]

    def context(vectors: Tensor, items: Tensor) -> list[Tensor]:
        return [model.context(vectors, catalog.take(items))]

    def vectors(items: Tensor) -> list[Tensor]:
        return [torch.nn.functional.normalize(model.items(catalog.take(items)), dim=-1)]

    width = model.item_attn.q.in_features
    items, several = torch.arange(length), torch.zeros(EXAMPLE_STATES, width)
    return {
        "states": trace(model, states, user, constants),
        "contributions": trace(model, contributions, user, constants),
        "scores": trace(model, scores, [several], constants),
        "context": trace(model, context, [several, items], constants),
        "vectors": trace(model, vectors, [items], constants),
    }


def _batch(ids: Tensor, profiles: Tensor, history: Tensor, ratings: Tensor, times: Tensor) -> UserBatch:
    return UserBatch(ids, profiles, history, ratings, times, torch.full((1,), 1) * history.shape[1])


def _users(data: RatingsCollection, num_fields: int) -> dict[str, Any]:
    users: EntityTable = data.users
    fields = [
        {
            "name": field.name,
            "kind": field.kind,
            "values": list(field.values),
            "mean": field.mean,
            "spread": field.spread,
            "edges": list(field.edges),
        }
        for field in users.fields
    ]
    return {
        "ids": list(users.ids),
        "fields": fields,
        "numFields": num_fields,
        "cells": {field.name: list(users.cells[field.name]) for field in users.fields},
        "heldOut": np.flatnonzero(users.held_out).tolist(),
    }


def _histories(task: Any) -> dict[str, list[Any]]:
    """Return the ratings of all users, as the model reads them, and where those of each user start."""
    rows = np.arange(len(task.data.events.items))
    batch = task.histories.user_batch([0], [rows])
    return {
        "offsets": task.data.user_offsets.tolist(),
        "items": batch.history[0].tolist(),
        "ratings": batch.ratings[0].tolist(),
        "times": batch.times[0].tolist(),
    }
