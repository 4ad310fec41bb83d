"""The best items by an index of neighbours (HNSW, Malkov and Yashunin 2018) instead of all products; by usearch."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from regard.core.choosing import Shelf
from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.layers.choices import Best, total


class Index:
    """Keys (n e) -> the items whose inner product with a query is largest, nearly always."""

    def __init__(self, keys: Tensor, *, links: int = 16, breadth: int = 96) -> None:
        usearch: Any = require("usearch.index", extra="recommendation")
        self._keys = keys.detach().float().cpu().numpy()
        # Inner products become distances between vectors of one length: the rest of it is one more feature.
        longest = float(np.linalg.norm(self._keys, axis=1).max()) if len(self._keys) else 1.0
        rest = np.sqrt(np.maximum(longest**2 - (self._keys**2).sum(axis=1, keepdims=True), 0))
        width = self._keys.shape[1] + 1
        self._index = usearch.Index(
            ndim=width, metric="cos", dtype="f32", connectivity=links, expansion_add=breadth, expansion_search=breadth
        )
        self._index.add(np.arange(len(self._keys)), np.hstack([self._keys, rest]).astype(np.float32))

    def best(self, queries: Tensor, count: int) -> Best:
        """(m e) -> the `count` best of each, by the exact products of those that were found."""
        found = queries.detach().float().cpu().numpy()
        wide = np.hstack([found, np.zeros((len(found), 1))]).astype(np.float32)
        count = min(count, len(self._keys))
        places = np.asarray(self._index.search(wide, count).keys, dtype=np.int64).reshape(len(found), -1)
        scores = np.einsum("me,mke->mk", found, self._keys[places])
        order = np.argsort(-scores, axis=1, kind="stable")
        tensor = queries.new_tensor
        return Best(tensor(np.take_along_axis(places, order, 1)).long(), tensor(np.take_along_axis(scores, order, 1)))


def best(model: Any, states: Tensor, shelf: Shelf, *, count: int) -> Best:
    """The `count` best items of each state, nearly always, with the log p that an exact search gives them."""
    index, queries = index_of(model, states, shelf)
    found = index.best(queries, count)
    return Best(found.places, found.scores - total(model, states, shelf))


def index_of(model: Any, states: Tensor, shelf: Shelf) -> tuple[Index, Tensor]:
    """A model whose scores are one inner product -> an index of its items, and the queries of the states."""
    found = model.vectors(states, shelf)
    if found is None or len(found[0]) != 1:
        raise ConfigError(
            "search=approximate needs one head and a score that is an inner product (model.choice_heads=1, "
            "model.score=dot); search=exact works for every model"
        )
    queries, keys = found
    return Index(keys[0]), queries[0]
