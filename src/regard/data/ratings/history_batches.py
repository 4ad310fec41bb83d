"""Histories as batches: windows of what each user chose, to learn from; and questions: what was chosen next?"""

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
    """Part of a user's training events: rows of the collection."""

    user: int
    rows: IntArray  # one more than is read: each but the first of a later window is to be foretold
    starts_history: bool  # whether the history begins here, so that its first choice is foretold from the profile alone


class HistoryBatch(NamedTuple):
    """A batch: users, the items, and what was chosen after each state."""

    users: UserBatch  # histories (b t)
    catalog: ItemCatalog
    targets: Tensor  # (b 1+t) places of what was chosen next
    ratings: Tensor  # (b 1+t) what was thought of it, from -1 to 1
    target_mask: Tensor  # (b 1+t) bool: whether there is such a choice
    visible: Tensor  # (1+t t) bool: what of the history may be known when a choice is judged


class TestCase(NamedTuple):
    """What did this user choose at this row, given all before it?"""

    user: int
    row: int


class Histories:
    """The events of a collection as histories of at most `longest` items."""

    def __init__(
        self,
        collection: RatingsCollection,
        *,
        max_length: int,
        split: Split = "leave_one_out",
        causal: bool = True,
        liked: float | None = None,
    ) -> None:
        """`foretold`: what comes next is asked for, so only what was before may be known, however parts were drawn."""
        self.collection, self.max_length, self.liked = collection, max_length, liked
        held = collection.items.held_out[collection.events.items]
        new = collection.users.held_out[collection.events.users]
        # at random, what is held out may be earlier than what is learnt from: only the latter is history
        self._usable = ~held & ((collection.split_ids == TRAIN) | new) if split == "random" else ~held
        self._timeless = split == "random" and not causal

    @cached_property
    def catalog(self) -> ItemCatalog:
        """All items; those that are held out have no number, and so no vector of their own."""
        held = self.collection.items.held_out
        numbers = np.where(held, 0, np.arange(1, len(held) + 1))
        return ItemCatalog(torch.from_numpy(numbers), torch.from_numpy(self.collection.items.profiles))

    @cached_property
    def windows(self) -> list[HistoryWindow]:
        """What is learnt from, in rows of at most `longest` items and the one that follows."""
        found = []
        rows = np.flatnonzero(self.collection.split_ids == TRAIN)
        for user, mine in _by_user(rows, self.collection.events.users[rows]):
            high = len(mine)
            while high > 0:
                low = max(0, high - self.max_length - 1)
                if low == 0 or high - low > 1:
                    found.append(HistoryWindow(user, mine[low:high], low == 0))
                high = low + 1 if low else 0
        return found

    @cached_property
    def lengths(self) -> Indices:
        """Items of each window."""
        return np.array([len(window.rows) for window in self.windows], dtype=np.int64)

    @cached_property
    def _ratings(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """(n) from -1 to 1, 0 where all are the same; 1 or -1 where an item is liked or not."""
        if self.liked is not None:
            return np.where(self.collection.events.ratings >= self.liked, 1, -1).astype(np.float32)
        low, high = self.collection.scale
        middle, half = (low + high) / 2, (high - low) / 2
        found = self.collection.events.ratings
        return np.asarray((found - middle) / half if half else np.zeros_like(found), dtype=np.float32)

    @cached_property
    def _days(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        return np.asarray(self.collection.days)

    def batch(self, window_ids: Indices) -> HistoryBatch:
        """Window numbers -> a batch."""
        windows = [self.windows[number] for number in window_ids]
        people = self.user_batch([w.user for w in windows], [w.rows[:-1] for w in windows])
        size = people.history.shape[1] + 1
        chosen, counted = np.zeros((len(windows), size), np.int64), np.zeros((len(windows), size), np.bool_)
        ratings = np.zeros((len(windows), size), np.float32)
        for i, window in enumerate(windows):
            count = len(window.rows)
            chosen[i, :count] = self.collection.events.items[window.rows]
            ratings[i, :count] = self._ratings[window.rows]
            counted[i, 0 if window.first else 1 : count] = True
        order = np.arange(size)
        sight = order[:, None] != order[:-1] if self._timeless else order[:, None] > order[:-1]
        return HistoryBatch(people, self.catalog, *map(torch.from_numpy, (chosen, ratings, counted, sight)))

    def user_batch(self, users: Sequence[int], rows: Sequence[IntArray]) -> UserBatch:
        """Users and rows of the collection for each -> histories, padded on the right."""
        size, count = max((len(mine) for mine in rows), default=0), len(users)
        history, lengths = np.zeros((count, size), np.int64), np.array([len(mine) for mine in rows], np.int64)
        ratings, times = np.zeros((count, size), np.float32), np.zeros((count, size), np.float32)
        for i, mine in enumerate(rows):
            history[i, : len(mine)] = self.collection.events.items[mine]
            ratings[i, : len(mine)] = self._ratings[mine]
            times[i, : len(mine)] = self._days[mine]
        places = np.array(users, np.int64)
        numbers = np.where(self.collection.users.held_out[places], 0, places + 1)
        profiles = self.collection.users.profiles[places]
        return UserBatch(*map(torch.from_numpy, (numbers, profiles, history, ratings, times, lengths)))

    def history_before(self, case: TestCase) -> IntArray:
        """The rows of all that the user had chosen before, oldest first; where times do not count, of all others."""
        begin, end = self.collection.user_offsets[case.user : case.user + 2]
        rows = np.arange(begin, end if self._timeless else case.row)
        found: IntArray = rows[self._usable[rows] & (rows != case.row)]
        return found

    def test_inputs(self, cases: Sequence[TestCase]) -> UserBatch:
        """Questions -> the histories before them, as much as is read."""
        return self.user_batch([q.user for q in cases], [self.history_before(q)[-self.max_length :] for q in cases])

    def test_cases(self, split_id: int) -> list[TestCase]:
        """The events of a part (splits.VALID, splits.TEST), each a question."""
        return self._asked(np.flatnonzero(self.collection.split_ids == split_id))

    def new_user_cases(self) -> list[TestCase]:
        """The last event of each user who is held out, where the item is not."""
        users, items = self.collection.users.held_out, self.collection.items.held_out
        events = self.collection.events
        rows = np.flatnonzero(users[events.users] & ~items[events.items])
        return self._asked(np.array([mine[-1] for _, mine in _by_user(rows, events.users[rows])], dtype=np.int64))

    def new_item_cases(self) -> list[TestCase]:
        """The events of items that are held out, of users who are not."""
        events, held = self.collection.events, self.collection.items.held_out
        return self._asked(
            np.flatnonzero(
                (self.collection.split_ids == COLD) & held[events.items] & ~self.collection.users.held_out[events.users]
            )
        )

    def _asked(self, rows: IntArray) -> list[TestCase]:
        users = self.collection.events.users
        return [TestCase(int(users[row]), int(row)) for row in rows]


def _by_user(rows: IntArray, users: IntArray) -> list[tuple[int, IntArray]]:
    """Rows that are sorted by user -> each user and the user's rows."""
    if not len(rows):
        return []
    edges = np.flatnonzero(np.diff(users)) + 1
    return [(int(part[0]), mine) for part, mine in zip(np.split(users, edges), np.split(rows, edges), strict=True)]
