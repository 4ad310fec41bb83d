"""Windows cover every training event once; test cases only use the past."""

import numpy as np
import pytest
import torch

from regard.data.builtin import films
from regard.data.ratings import dataset
from regard.data.ratings.dataset import DatasetOptions
from regard.data.ratings.history_batches import Histories
from regard.data.ratings.splits import TEST, TRAIN, VALID


@pytest.fixture(scope="module")
def data():
    return dataset.build_collection(films.generate(30, 40, seed=3), DatasetOptions(cold_users=0.1, cold_items=0.1))


@pytest.mark.parametrize("max_length", [1, 3, 50])
def test_every_training_event_is_predicted_once(data, max_length):
    histories = Histories(data, max_length=max_length)
    predicted = [row for w in histories.windows for row in w.rows[0 if w.starts_history else 1 :].tolist()]
    assert sorted(predicted) == np.flatnonzero(data.split_ids == TRAIN).tolist()
    assert histories.lengths.max() <= max_length + 1


def test_targets_are_the_next_items(data):
    histories = Histories(data, max_length=5)
    batch = histories.batch(np.arange(6))
    for i, window in enumerate(histories.windows[:6]):
        items = data.events.items[window.rows]
        assert batch.users.history[i, : len(items) - 1].tolist() == items[:-1].tolist()
        assert batch.targets[i, : len(items)].tolist() == items.tolist()
        assert batch.target_mask[i].sum() == len(items) - (not window.starts_history)
        assert not batch.target_mask[i, len(items) :].any()


@pytest.mark.parametrize("split_id", [VALID, TEST])
def test_test_cases_only_use_the_past(data, split_id):
    histories = Histories(data, max_length=100)
    for case in histories.test_cases(split_id):
        rows = histories.history_before(case)
        assert (rows < case.row).all() and (data.events.times[rows] <= data.events.times[case.row]).all()
        assert (data.events.users[rows] == case.user).all()
        assert not data.items.held_out[data.events.items[rows]].any()


def test_cold_users_and_items_have_no_id(data):
    histories = Histories(data, max_length=100)
    users, items = histories.new_user_cases(), histories.new_item_cases()
    assert users and items
    assert (histories.test_inputs(users).ids == 0).all()
    assert (histories.catalog.ids[data.events.items[[case.row for case in items]]] == 0).all()
    assert (histories.catalog.ids == 0).sum() == data.items.held_out.sum()


@pytest.mark.parametrize("causal", [False, True])
def test_in_random_splits_only_training_events_are_history(causal):
    data = dataset.build_collection(films.generate(30, 40, seed=3), DatasetOptions("random"))
    histories = Histories(data, max_length=100, split="random", causal=causal)
    for case in histories.test_cases(TEST):
        history = histories.history_before(case)
        training_rows = np.flatnonzero((data.events.users == case.user) & (data.split_ids == TRAIN))
        assert history.tolist() == [row for row in training_rows if row < case.row or not causal]


@pytest.mark.parametrize(("split", "causal"), [("random", False), ("random", True), ("leave_one_out", False)])
def test_targets_are_never_visible(split, causal):
    data = dataset.build_collection(films.generate(30, 40, seed=3), DatasetOptions(split))
    histories = Histories(data, max_length=10, split=split, causal=causal)
    batch = histories.batch(np.arange(8))
    size = batch.users.history.shape[1]
    assert batch.visible.shape == (size + 1, size) and not batch.visible.diagonal().any()
    later = torch.ones(size + 1, size, dtype=torch.bool).triu(1)
    assert bool((batch.visible & later).any()) == (split == "random" and not causal)
    assert torch.equal(
        batch.targets[:, :size][batch.users.lengths == size], batch.users.history[batch.users.lengths == size]
    )
