"""Windows cover every training choice once; a question is asked with the past alone."""

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
    return dataset.build_collection(films.generate(30, 40, seed=3), DatasetOptions(held_users=0.1, held_items=0.1))


@pytest.mark.parametrize("longest", [1, 3, 50])
def test_every_training_choice_is_foretold_once(data, longest):
    histories = Histories(data, max_length=longest)
    foretold = [row for w in histories.windows for row in w.rows[0 if w.starts_history else 1 :].tolist()]
    assert sorted(foretold) == np.flatnonzero(data.parts == TRAIN).tolist()
    assert histories.lengths.max() <= longest + 1


def test_a_lesson_foretells_what_comes_next(data):
    histories = Histories(data, max_length=5)
    lesson = histories.batch(np.arange(6))
    for i, window in enumerate(histories.windows[:6]):
        items = data.events.items[window.rows]
        assert lesson.users.history[i, : len(items) - 1].tolist() == items[:-1].tolist()
        assert lesson.targets[i, : len(items)].tolist() == items.tolist()
        assert lesson.target_mask[i].sum() == len(items) - (not window.starts_history)
        assert not lesson.target_mask[i, len(items) :].any()


@pytest.mark.parametrize("part", [VALID, TEST])
def test_a_question_is_asked_with_the_past_alone(data, part):
    histories = Histories(data, max_length=100)
    for question in histories.test_cases(part):
        rows = histories.history_before(question)
        assert (rows < question.row).all() and (data.events.times[rows] <= data.events.times[question.row]).all()
        assert (data.events.users[rows] == question.user).all()
        assert not data.items.held[data.events.items[rows]].any()


def test_new_ones_have_no_number(data):
    histories = Histories(data, max_length=100)
    users, items = histories.new_user_cases(), histories.new_item_cases()
    assert users and items
    assert (histories.test_inputs(users).ids == 0).all()
    assert (histories.catalog.ids[data.events.items[[question.row for question in items]]] == 0).all()
    assert (histories.catalog.ids == 0).sum() == data.items.held.sum()


@pytest.mark.parametrize("foretold", [False, True])
def test_at_random_only_what_is_learnt_from_is_history(foretold):
    data = dataset.build_collection(films.generate(30, 40, seed=3), DatasetOptions("random"))
    histories = Histories(data, max_length=100, split="random", causal=foretold)
    for question in histories.test_cases(TEST):
        known = histories.history_before(question)
        own = np.flatnonzero((data.events.users == question.user) & (data.split_ids == TRAIN))
        assert known.tolist() == [row for row in own if row < question.row or not foretold]


@pytest.mark.parametrize(("split", "foretold"), [("random", False), ("random", True), ("leave_one_out", False)])
def test_what_is_judged_is_never_in_sight(split, foretold):
    data = dataset.build_collection(films.generate(30, 40, seed=3), DatasetOptions(split))
    histories = Histories(data, max_length=10, split=split, causal=foretold)
    lesson = histories.batch(np.arange(8))
    size = lesson.users.history.shape[1]
    assert lesson.visible.shape == (size + 1, size) and not lesson.visible.diagonal().any()
    later = torch.ones(size + 1, size, dtype=torch.bool).triu(1)
    assert bool((lesson.visible & later).any()) == (split == "random" and not foretold)
    assert torch.equal(
        lesson.targets[:, :size][lesson.users.lengths == size], lesson.users.history[lesson.users.lengths == size]
    )
