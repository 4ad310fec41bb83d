"""Splits of rating events: leave-one-out, by time, at random or by files; cold-start users and items.

Training never uses events of a user that are later than the user's held-out events, except in random splits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError
from regard.data.ratings.events import Events, IntArray

Split = Literal["leave_one_out", "time", "random", "files"]
TRAIN, VALID, TEST, COLD = 0, 1, 2, 3  # COLD: events of a user or an item that is held out entirely
SPLIT_IDS = {"train": TRAIN, "valid": VALID, "test": TEST}
HELD_OUT_SHARE = 0.1  # fraction of the ratings in valid, and in test, for splits by time and at random
BoolArray = NDArray[np.bool_]


def assign(events: Events, split: Split, *, names: tuple[str, ...] = (), seed: int = 0) -> IntArray:
    """Return the split of each event: TRAIN, VALID or TEST."""
    if split == "files":
        if not names:
            raise ConfigError("split=files: the data has no files named after splits; choose leave_one_out or time")
        return np.array([SPLIT_IDS[name] for name in names])[events.splits]
    if split == "time":
        return _split_by_time(events)
    if split == "random":
        draws = np.random.default_rng(seed).random(len(events.users))
        valid_or_train = np.where(draws < 2 * HELD_OUT_SHARE, VALID, TRAIN)
        return np.where(draws < HELD_OUT_SHARE, TEST, valid_or_train).astype(np.int64)
    return _leave_one_out(events)


def _leave_one_out(events: Events) -> IntArray:
    """Assign each user's last event to test and the one before to valid; users with fewer than three only train."""
    counts = np.bincount(events.users)[events.users]
    ends = np.cumsum(np.bincount(events.users))[events.users]
    remaining = ends - 1 - np.arange(len(events.users))  # later events of the same user
    split_ids = np.where(remaining == 0, TEST, np.where(remaining == 1, VALID, TRAIN))
    return np.where(counts < 3, TRAIN, split_ids).astype(np.int64)


def _split_by_time(events: Events) -> IntArray:
    """Assign the last tenth of all ratings to test, and the tenth before to valid."""
    valid_start, test_start = np.quantile(events.times, [1 - 2 * HELD_OUT_SHARE, 1 - HELD_OUT_SHARE], method="higher")
    split_ids = np.where(events.times >= test_start, TEST, np.where(events.times >= valid_start, VALID, TRAIN))
    if not (split_ids == TRAIN).any() or not (split_ids == TEST).any():
        raise DataError("split=time: the ratings have too few different times to be split; choose leave_one_out")
    return split_ids.astype(np.int64)


def hold_out(split_ids: IntArray, events: Events, *, users: BoolArray, items: BoolArray) -> IntArray:
    """Assign all events of these users (u) and of these items (i) to COLD."""
    cold = users[events.users] | items[events.items]
    return np.where(cold, COLD, split_ids)


def sample_held_out(count: int, share: float, *, seed: int) -> BoolArray:
    """Sample a fraction of `count` entities to hold out entirely, as a mask (n)."""
    held_out = np.zeros(count, dtype=np.bool_)
    held_out[np.random.default_rng(seed).permutation(count)[: round(share * count)]] = True
    return held_out


def check_no_leakage(events: Events, split_ids: IntArray, ids: list[str]) -> None:
    """Raise a DataError that names a user if a training event is later than a held-out event of the user."""
    first_held_out = np.full(int(events.users.max()) + 1, np.inf)  # time by user
    held_out = (split_ids == VALID) | (split_ids == TEST)
    np.minimum.at(first_held_out, events.users[held_out], events.times[held_out])
    late = np.flatnonzero((split_ids == TRAIN) & (events.times > first_held_out[events.users]))
    if len(late):
        row = int(late[0])
        user = ids[events.users[row]]
        raise DataError(
            f"{len(late)} training ratings come from the future: user {user!r} has one at {events.times[row]:.0f}, "
            f"after one that is held out at {first_held_out[events.users[row]]:.0f}; "
            "choose split=leave_one_out or split=time"
        )


def check_has_validation(split_ids: IntArray, split: Split) -> None:
    """Raise a DataError unless there are validation events."""
    if (split_ids == VALID).any():
        return
    if split == "files":
        raise DataError("split=files: there is no file with the ratings of valid; give one, or choose leave_one_out")
    raise DataError("no rating is held out for 'valid': users have too few ratings; give more, or choose split=time")
