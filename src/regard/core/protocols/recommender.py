"""Users, the items they choose among, and what a model of choices is: what such models and their task agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor


class ItemCatalog(NamedTuple):
    """The items that there are to choose from."""

    ids: Tensor  # (n) of each item's own vector; 0: it has none, and is known by its profile alone
    profiles: Tensor  # (n p)

    def take(self, indices: Tensor) -> ItemCatalog:
        """Some of the items."""
        return ItemCatalog(self.ids[indices], self.profiles[indices])


class UserBatch(NamedTuple):
    """Users and what they chose so far, oldest first, padding on the right."""

    ids: Tensor  # (b) of each user's own vector; 0: a new user
    profiles: Tensor  # (b p)
    history: Tensor  # (b t) places on the shelf
    ratings: Tensor  # (b t) from -1 to 1; 0 where there are none
    times: Tensor  # (b t) days
    lengths: Tensor  # (b)


class StateContributions(NamedTuple):
    """A state as a sum: what each thing that is known of a user adds to it."""

    contributions: Tensor  # (r d)
    weights: Tensor  # (r) attention, mean of the heads


class RecommenderModel(Protocol):
    """A model of what is chosen next, and of what is thought of it."""

    @property
    def fields(self) -> Sequence[int]:
        """The widths of the fields of a user's profile, which the model reads one by one; none: it reads no profile."""

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b 1+t d): what is known of each user before the first choice and after each one."""

    def gates(self, states: Tensor) -> Tensor:
        """(m d) -> (m h): the log of each head's share of the choice."""

    def scores(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """(m d) -> (m h n): how well each item suits, by every head, before the softmax over items."""

    def query_key_vectors(self, states: Tensor, catalog: ItemCatalog) -> tuple[Tensor, Tensor] | None:
        """Queries (h m e) and keys (h n e) whose inner products are the scores; None where the score is not one."""

    def context(self, states: Tensor, catalog: ItemCatalog) -> Tensor | None:
        """(m d) -> (m e): the items' values, weighed by how well each suits; None where the model has no values."""

    def rating_logits(
        self, users: UserBatch, catalog: ItemCatalog, item_indices: Tensor, history_mask: Tensor | None = None
    ) -> Tensor:
        """Places on the shelf (b k) -> (b k): what each user will think of those items, as logits, told by the part of
        the history that is in sight (b k t); none given: by all of it."""

    def state_contributions(self, users: UserBatch, catalog: ItemCatalog) -> StateContributions | None:
        """One user -> the last state as a sum over what is known; None where the model has no such sum."""
