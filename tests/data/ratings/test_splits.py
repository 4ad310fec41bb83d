"""Splits: each user's last two, the latest of all, or by files; a training rating from the future is refused."""

import numpy as np
import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.ratings import splits
from regard.data.ratings.events import Events
from regard.data.ratings.splits import COLD, TEST, TRAIN, VALID


def made(counts=(5, 1, 2, 4)):
    users = np.repeat(np.arange(len(counts)), counts)
    size = len(users)
    items = np.concatenate([np.arange(count) for count in counts])
    return Events(users, items, np.ones(size), np.arange(size, dtype=float), np.zeros(size, dtype=np.int64))


def test_leave_one_out():
    parts = splits.assign(made(), "leave_one_out")
    assert parts.tolist() == [0, 0, 0, VALID, TEST, 0, 0, 0, 0, 0, VALID, TEST]  # few ratings: all are learnt from
    splits.check_no_leakage(made(), parts, list("abcd"))


def test_by_time_nothing_of_training_is_later_than_anything_held_out():
    events = made((30, 30))
    parts = splits.assign(events, "time")
    assert events.times[parts == TRAIN].max() < events.times[parts == VALID].min()
    assert events.times[parts == VALID].max() < events.times[parts == TEST].min()
    splits.check_no_leakage(events, parts, ["a", "b"])


def test_one_time_for_all_cannot_be_cut():
    events = made()._replace(times=np.zeros(12))
    with pytest.raises(DataError, match="too few different times to be cut; choose leave_one_out"):
        splits.assign(events, "time")


def test_at_random_is_the_seed_s():
    events = made((200,))
    one, same, other = (splits.assign(events, "random", seed=seed) for seed in (1, 1, 2))
    assert one.tolist() == same.tolist() != other.tolist()
    assert set(one.tolist()) == {TRAIN, VALID, TEST}


def test_as_the_files_say():
    events = made((2, 2))._replace(splits=np.array([0, 1, 0, 1]))
    parts = splits.assign(events, "files", names=("train", "test"))
    assert parts.tolist() == [TRAIN, TEST, TRAIN, TEST]
    with pytest.raises(ConfigError, match="split=files: the data has no files named after splits"):
        splits.assign(events, "files")


def test_a_planted_leak_is_refused():
    events, parts = made(), splits.assign(made(), "leave_one_out")
    parts[4], parts[0] = TRAIN, TEST  # the last is learnt from, the first is asked for
    with pytest.raises(DataError, match="training ratings come from the future: user 'a' has one at 1, after one that"):
        splits.check_no_leakage(events, parts, list("abcd"))


def test_users_and_items_are_held_out_entirely():
    events = made()
    users, items = splits.sample_held_out(4, 0.25, seed=0), splits.sample_held_out(5, 0.2, seed=1)
    assert users.sum() == 1 and items.sum() == 1
    parts = splits.hold_out(splits.assign(events, "leave_one_out"), events, users=users, items=items)
    learnt = parts == TRAIN
    assert not users[events.users[learnt]].any() and not items[events.items[learnt]].any() and (parts == COLD).any()
