"""What is learnt from and what is asked: leave one out, by time, at random, as files say; users and items held out.

Nothing is learnt from the future: what a user did after the rating that is asked for is never in training.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError
from regard.data.ratings.events import Events, IntArray

Split = Literal["leave_one_out", "time", "random", "files"]
TRAIN, VALID, TEST, COLD = 0, 1, 2, 3  # COLD: of a user or an item that is held out entirely
SPLIT_IDS = {"train": TRAIN, "valid": VALID, "test": TEST}
HELD_OUT_SHARE = 0.1  # of the ratings, for valid and for test each, by time and at random
BoolArray = NDArray[np.bool_]


def assign(events: Events, split: Split, *, names: tuple[str, ...] = (), seed: int = 0) -> IntArray:
    """Events -> for each the part it belongs to: TRAIN, VALID or TEST."""
    if split == "files":
        if not names:
            raise ConfigError("split=files: the data has no files named after splits; choose leave_one_out or time")
        return np.array([SPLIT_IDS[name] for name in names])[events.splits]
    if split == "time":
        return _by_time(events)
    if split == "random":
        draws = np.random.default_rng(seed).random(len(events.users))
        return np.where(draws < HELD_OUT_SHARE, TEST, np.where(draws < 2 * HELD_OUT_SHARE, VALID, TRAIN)).astype(
            np.int64
        )
    return _leave_one_out(events)


def _leave_one_out(events: Events) -> IntArray:
    """The last of each user is for testing, the one before for validation; whoever has fewer than three only trains."""
    counts = np.bincount(events.users)[events.users]
    ends = np.cumsum(np.bincount(events.users))[events.users]
    left = ends - 1 - np.arange(len(events.users))  # how many of the user's come later
    parts = np.where(left == 0, TEST, np.where(left == 1, VALID, TRAIN))
    return np.where(counts < 3, TRAIN, parts).astype(np.int64)


def _by_time(events: Events) -> IntArray:
    """The last tenth of all ratings is for testing, the tenth before for validation."""
    first, second = np.quantile(events.times, [1 - 2 * HELD_OUT_SHARE, 1 - HELD_OUT_SHARE], method="higher")
    parts = np.where(events.times >= second, TEST, np.where(events.times >= first, VALID, TRAIN))
    if not (parts == TRAIN).any() or not (parts == TEST).any():
        raise DataError("split=time: the ratings have too few different times to be cut; choose leave_one_out")
    return parts.astype(np.int64)


def hold_out(split_ids: IntArray, events: Events, *, users: BoolArray, items: BoolArray) -> IntArray:
    """The same, but nothing of these users (u) and of these items (i) is learnt from."""
    cold = users[events.users] | items[events.items]
    return np.where(cold, COLD, split_ids)


def sample_held_out(count: int, share: float, *, seed: int) -> BoolArray:
    """(n) which are held out entirely."""
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[np.random.default_rng(seed).permutation(count)[: round(share * count)]] = True
    return chosen


def check_no_leakage(events: Events, split_ids: IntArray, ids: list[str]) -> None:
    """An error that names a user unless all that is learnt from lies before what is asked for, for each user."""
    asked = np.full(int(events.users.max()) + 1, np.inf)
    held = (split_ids == VALID) | (split_ids == TEST)
    np.minimum.at(asked, events.users[held], events.times[held])
    late = np.flatnonzero((split_ids == TRAIN) & (events.times > asked[events.users]))
    if len(late):
        row = int(late[0])
        user = ids[events.users[row]]
        raise DataError(
            f"{len(late)} training ratings come from the future: user {user!r} has one at {events.times[row]:.0f}, "
            f"after one that is held out at {asked[events.users[row]]:.0f}; choose split=leave_one_out or split=time"
        )


def check_has_validation(split_ids: IntArray, split: Split) -> None:
    """An error unless something is held out to choose weights by."""
    if (split_ids == VALID).any():
        return
    if split == "files":
        raise DataError("split=files: there is no file of the ratings of valid; give one, or choose leave_one_out")
    raise DataError("no rating is held out for 'valid': users have too few; give more, or split=time")
