"""Interface between recommendation models and the recommendation task: user and item batches, and model methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


class ItemCatalog(NamedTuple):
    """The items that can be recommended."""

    ids: Tensor  # (n) row of each item in the embedding table; 0: no embedding, the item is described by its profile
    profiles: Tensor  # (n p)

    def take(self, indices: Tensor) -> ItemCatalog:
        """Return the catalog of the items at these indices."""
        return ItemCatalog(self.ids[indices], self.profiles[indices])


class UserBatch(NamedTuple):
    """Users with their histories, oldest event first, padded on the right."""

    ids: Tensor  # (b) row of each user in the embedding table; 0: a new user
    profiles: Tensor  # (b p)
    history: Tensor  # (b t) indices into the catalog
    ratings: Tensor  # (b t) from -1 to 1; 0 if there are none
    times: Tensor  # (b t) days
    lengths: Tensor  # (b)


class StateContributions(NamedTuple):
    """A user state as a sum of contributions: one for each profile field and each event of the history."""

    contributions: Tensor  # (r d)
    weights: Tensor  # (r) attention weights, averaged over heads


class RecommenderModel(Protocol):
    """A model that predicts the next item a user chooses and the user's ratings."""

    @property
    def fields(self) -> Sequence[int]:
        """Widths of the fields of a user profile, which are embedded one by one; empty if profiles are not used."""

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b 1+t d): the state of each user before the first event and after each event."""

    def gates(self, states: Tensor) -> Tensor:
        """(m d) -> (m h): the log of the mixture weight of each head."""

    def scores(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """(m d) -> (m h n): the score of each item under each head, before the softmax over items."""

    def query_key_vectors(self, states: Tensor, catalog: ItemCatalog) -> tuple[Tensor, Tensor] | None:
        """Queries (h m e) and keys (h n e) whose inner products are the scores; None if the score is not one."""

    def context(self, states: Tensor, catalog: ItemCatalog) -> Tensor | None:
        """(m d) -> (m e): the item values, weighted by attention; None if the model has no values."""

    def rating_logits(
        self, users: UserBatch, catalog: ItemCatalog, item_indices: Tensor, history_mask: Tensor | None = None
    ) -> Tensor:
        """Catalog indices (b k) -> (b k): predicted ratings of these items by each user, as logits.

        `history_mask` (b k t) selects the events that the prediction may use; None: all of them.
        """

    def state_contributions(self, users: UserBatch, catalog: ItemCatalog) -> StateContributions | None:
        """One user -> the last state as a sum of contributions; None if the model's state is not such a sum."""


@runtime_checkable
class LastStateModel(Protocol):
    """A model that computes the last state of each user with less work than all states."""

    def last_states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b d): the state of each user after the last event, equal to that of `states`."""


def last_states(model: RecommenderModel, users: UserBatch, catalog: ItemCatalog) -> Tensor:
    """(b d): the state of each user after the last event."""
    if isinstance(model, LastStateModel):
        return model.last_states(users, catalog)
    states = model.states(users, catalog)
    return states[torch.arange(len(states), device=states.device), users.lengths]
