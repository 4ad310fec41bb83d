"""Batches of user histories: windows of training events, and test cases that ask for an item of a user.

`Histories` keeps the order of events: the next item is predicted. `UnorderedHistories` hides it: any other item is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.protocols import Indices
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.data.ratings.dataset import RatingsCollection
from regard.data.ratings.events import IntArray
from regard.data.ratings.splits import COLD, TRAIN, Split


class HistoryWindow(NamedTuple):
    """Consecutive training events of a user, as rows of the collection."""

    user: int
    rows: IntArray  # one more than the input: all are targets, except the first of a later window
    starts_history: bool  # True if the history starts here, so that its first item is predicted from the profile alone


class HistoryBatch(NamedTuple):
    """A training batch: users, items, and the targets of each state."""

    users: UserBatch  # histories (b t)
    catalog: ItemCatalog
    targets: Tensor  # (b 1+t) indices of the next items
    ratings: Tensor  # (b 1+t) ratings of the next items, from -1 to 1
    target_mask: Tensor  # (b 1+t) bool: True if there is a target
    visible: Tensor  # (1+t t) bool: the part of the history that may be used to predict a target


class TestCase(NamedTuple):
    """A held-out event: predict the item of this row from the history of the user."""

    user: int
    row: int


class Histories:
    """The events of a collection as histories of at most `max_length` items."""

    def __init__(
        self,
        collection: RatingsCollection,
        *,
        max_length: int,
        split: Split = "leave_one_out",
        causal: bool = True,
        liked: float | None = None,
    ) -> None:
        """`causal`: predict the next item, so that only earlier events are used as input for every split."""
        self.collection, self.max_length, self.liked = collection, max_length, liked
        cold_items = collection.items.held_out[collection.events.items]
        cold_users = collection.users.held_out[collection.events.users]
        # in random splits, held-out events may be earlier than training events: only the latter are history
        in_training = (collection.split_ids == TRAIN) | cold_users
        self._usable = ~cold_items & in_training if split == "random" else ~cold_items
        self._ignores_time = split == "random" and not causal

    @cached_property
    def catalog(self) -> ItemCatalog:
        """All items; cold items have id 0 and thus no learned vector."""
        held_out = self.collection.items.held_out
        ids = np.where(held_out, 0, np.arange(1, len(held_out) + 1))
        return ItemCatalog(torch.from_numpy(ids), torch.from_numpy(self.collection.items.profiles))

    @cached_property
    def windows(self) -> list[HistoryWindow]:
        """Training windows of at most `max_length` input items and the following target."""
        windows = []
        rows = np.flatnonzero(self.collection.split_ids == TRAIN)
        for user, user_rows in _group_by_user(rows, self.collection.events.users[rows]):
            high = len(user_rows)
            while high > 0:
                low = max(0, high - self.max_length - 1)
                if low == 0 or high - low > 1:
                    windows.append(HistoryWindow(user, user_rows[low:high], low == 0))
                high = low + 1 if low else 0
        return windows

    @cached_property
    def lengths(self) -> Indices:
        """Number of items of each window."""
        return np.array([len(window.rows) for window in self.windows], dtype=np.int64)

    @cached_property
    def _ratings(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """(n) ratings scaled to -1 … 1 (0 if the scale has one value), or 1 and -1 for liked and not liked."""
        if self.liked is not None:
            return np.where(self.collection.events.ratings >= self.liked, 1, -1).astype(np.float32)
        low, high = self.collection.scale
        middle, half = (low + high) / 2, (high - low) / 2
        ratings = self.collection.events.ratings
        return np.asarray((ratings - middle) / half if half else np.zeros_like(ratings), dtype=np.float32)

    @cached_property
    def _days(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        return np.asarray(self.collection.days)

    def batch(self, window_ids: Indices) -> HistoryBatch:
        """Window indices -> training batch."""
        return self._to_batch([self.windows[window_id] for window_id in window_ids])

    def _to_batch(self, windows: Sequence[HistoryWindow]) -> HistoryBatch:
        users = self.user_batch([w.user for w in windows], [w.rows[:-1] for w in windows])
        size = users.history.shape[1] + 1
        targets, target_mask = np.zeros((len(windows), size), np.int64), np.zeros((len(windows), size), np.bool_)
        ratings = np.zeros((len(windows), size), np.float32)
        for i, window in enumerate(windows):
            count = len(window.rows)
            targets[i, :count] = self.collection.events.items[window.rows]
            ratings[i, :count] = self._ratings[window.rows]
            target_mask[i, 0 if window.starts_history else 1 : count] = True
        order = np.arange(size)
        visible = order[:, None] != order[:-1] if self._ignores_time else order[:, None] > order[:-1]
        return HistoryBatch(users, self.catalog, *map(torch.from_numpy, (targets, ratings, target_mask, visible)))

    def user_batch(self, users: Sequence[int], rows: Sequence[IntArray]) -> UserBatch:
        """Users, and rows of the collection for each of them -> histories, padded on the right."""
        lengths = np.array([len(user_rows) for user_rows in rows], np.int64)
        is_event = np.arange(lengths.max(initial=0)) < lengths[:, None]
        history = np.zeros(is_event.shape, np.int64)
        ratings, times = np.zeros(is_event.shape, np.float32), np.zeros(is_event.shape, np.float32)
        if is_event.any():
            events = np.concatenate(rows)
            history[is_event] = self.collection.events.items[events]
            ratings[is_event], times[is_event] = self._ratings[events], self._days[events]
        indices = np.array(users, np.int64)
        ids = np.where(self.collection.users.held_out[indices], 0, indices + 1)
        profiles = self.collection.users.profiles[indices]
        return UserBatch(*map(torch.from_numpy, (ids, profiles, history, ratings, times, lengths)))

    def history_before(self, case: TestCase) -> IntArray:
        """Return the user's earlier rows, oldest first; all other rows of the user if time is ignored."""
        start, end = self.collection.user_offsets[case.user : case.user + 2]
        rows = np.arange(start, end if self._ignores_time else case.row)
        history: IntArray = rows[self._usable[rows] & (rows != case.row)]
        return history

    def test_inputs(self, cases: Sequence[TestCase]) -> UserBatch:
        """Test cases -> the last `max_length` items of their histories."""
        histories = [self.history_before(case)[-self.max_length :] for case in cases]
        return self.user_batch([case.user for case in cases], histories)

    def test_cases(self, split_id: int) -> list[TestCase]:
        """Return the events of a split (splits.VALID, splits.TEST) as test cases."""
        return self._to_cases(np.flatnonzero(self.collection.split_ids == split_id))

    def new_user_cases(self) -> list[TestCase]:
        """Return the last event of each cold user with an item that is not cold."""
        users, items = self.collection.users.held_out, self.collection.items.held_out
        events = self.collection.events
        rows = np.flatnonzero(users[events.users] & ~items[events.items])
        last_rows = [user_rows[-1] for _, user_rows in _group_by_user(rows, events.users[rows])]
        return self._to_cases(np.array(last_rows, dtype=np.int64))

    def new_item_cases(self) -> list[TestCase]:
        """Return the events of cold items with users that are not cold."""
        events = self.collection.events
        cold_items = self.collection.items.held_out[events.items]
        cold_users = self.collection.users.held_out[events.users]
        return self._to_cases(np.flatnonzero((self.collection.split_ids == COLD) & cold_items & ~cold_users))

    def _to_cases(self, rows: IntArray) -> list[TestCase]:
        users = self.collection.events.users
        return [TestCase(int(users[row]), int(row)) for row in rows]


class UnorderedHistories(Histories):
    """The events of a collection as sets: any item of a user is predicted from a random part of the others.

    Every batch shuffles the events of a user. The next event of a random order is a random one of the rest, so each
    state predicts the rest from the part before it. Times are hidden.
    """

    @cached_property
    def windows(self) -> list[HistoryWindow]:
        """All training events of each user, as many times as they fill windows; `batch` samples from them."""
        rows = np.flatnonzero(self.collection.split_ids == TRAIN)
        return [
            HistoryWindow(user, user_rows, starts_history=True)
            for user, user_rows in _group_by_user(rows, self.collection.events.users[rows])
            for _ in range(-(-len(user_rows) // (self.max_length + 1)))
        ]

    @cached_property
    def lengths(self) -> Indices:
        """Number of items of each window."""
        longest = self.max_length + 1
        return np.array([min(len(window.rows), longest) for window in self.windows], dtype=np.int64)

    def batch(self, window_ids: Indices) -> HistoryBatch:
        """Window indices -> training batch of shuffled events, sampled if there are more than a window holds."""
        windows = [self.windows[window_id] for window_id in window_ids]
        orders = [torch.randperm(len(window.rows)).numpy()[: self.max_length + 1] for window in windows]
        return self._to_batch(
            [window._replace(rows=window.rows[order]) for window, order in zip(windows, orders, strict=True)]
        )

    def history_before(self, case: TestCase) -> IntArray:
        """Return the user's rows of earlier splits; of a cold user all other rows."""
        split_ids, users = self.collection.split_ids, self.collection.users
        start, end = self.collection.user_offsets[case.user : case.user + 2]
        rows = np.arange(start, end)
        is_earlier = (split_ids[rows] < split_ids[case.row]) | users.held_out[case.user]
        cold_items = self.collection.items.held_out[self.collection.events.items[rows]]
        history: IntArray = rows[is_earlier & ~cold_items & (rows != case.row)]
        return history

    @cached_property
    def _days(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        return np.zeros(len(self.collection.events.users), np.float32)


def _group_by_user(rows: IntArray, users: IntArray) -> list[tuple[int, IntArray]]:
    """Rows sorted by user -> (user, rows of the user)."""
    if not len(rows):
        return []
    edges = np.flatnonzero(np.diff(users)) + 1
    groups = zip(np.split(users, edges), np.split(rows, edges), strict=True)
    return [(int(group_users[0]), group_rows) for group_users, group_rows in groups]
