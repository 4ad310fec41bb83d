"""Splits: each user's last two, the latest of all, or by files; training ratings from the future are refused."""

import numpy as np
import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.ratings import splits
from regard.data.ratings.events import Events
from regard.data.ratings.splits import COLD, TEST, TRAIN, VALID


def make_events(counts=(5, 1, 2, 4)):
    users = np.repeat(np.arange(len(counts)), counts)
    size = len(users)
    items = np.concatenate([np.arange(count) for count in counts])
    return Events(users, items, np.ones(size), np.arange(size, dtype=float), np.zeros(size, dtype=np.int64))


def test_leave_one_out():
    split_ids = splits.assign(make_events(), "leave_one_out")
    assert split_ids.tolist() == [0, 0, 0, VALID, TEST, 0, 0, 0, 0, 0, VALID, TEST]  # users with few ratings only train
    splits.check_no_leakage(make_events(), split_ids, list("abcd"))


def test_by_time_training_is_before_everything_held_out():
    events = make_events((30, 30))
    split_ids = splits.assign(events, "time")
    assert events.times[split_ids == TRAIN].max() < events.times[split_ids == VALID].min()
    assert events.times[split_ids == VALID].max() < events.times[split_ids == TEST].min()
    splits.check_no_leakage(events, split_ids, ["a", "b"])


def test_equal_times_cannot_be_split():
    events = make_events()._replace(times=np.zeros(12))
    with pytest.raises(DataError, match="too few different times to be split; choose leave_one_out"):
        splits.assign(events, "time")


def test_random_splits_depend_on_the_seed():
    events = make_events((200,))
    first, same, different = (splits.assign(events, "random", seed=seed) for seed in (1, 1, 2))
    assert first.tolist() == same.tolist() != different.tolist()
    assert set(first.tolist()) == {TRAIN, VALID, TEST}


def test_splits_by_files():
    events = make_events((2, 2))._replace(splits=np.array([0, 1, 0, 1]))
    split_ids = splits.assign(events, "files", names=("train", "test"))
    assert split_ids.tolist() == [TRAIN, TEST, TRAIN, TEST]
    with pytest.raises(ConfigError, match="split=files: the data has no files named after splits"):
        splits.assign(events, "files")


def test_a_leak_is_refused():
    events, split_ids = make_events(), splits.assign(make_events(), "leave_one_out")
    split_ids[4], split_ids[0] = TRAIN, TEST  # train on the last event, test on the first
    with pytest.raises(DataError, match="training ratings come from the future: user 'a' has one at 1, after one that"):
        splits.check_no_leakage(events, split_ids, list("abcd"))


def test_users_and_items_are_held_out_entirely():
    events = make_events()
    users, items = splits.sample_held_out(4, 0.25, seed=0), splits.sample_held_out(5, 0.2, seed=1)
    assert users.sum() == 1 and items.sum() == 1
    split_ids = splits.hold_out(splits.assign(events, "leave_one_out"), events, users=users, items=items)
    training = split_ids == TRAIN
    assert not users[events.users[training]].any() and not items[events.items[training]].any()
    assert (split_ids == COLD).any()
