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
    return dataset.gather(films.make(30, 40, seed=3), DatasetOptions(held_users=0.1, held_items=0.1))


@pytest.mark.parametrize("longest", [1, 3, 50])
def test_every_training_choice_is_foretold_once(data, longest):
    histories = Histories(data, longest=longest)
    foretold = [row for w in histories.windows for row in w.rows[0 if w.first else 1 :].tolist()]
    assert sorted(foretold) == np.flatnonzero(data.parts == TRAIN).tolist()
    assert histories.lengths.max() <= longest + 1


def test_a_lesson_foretells_what_comes_next(data):
    histories = Histories(data, longest=5)
    lesson = histories.lesson(np.arange(6))
    for i, window in enumerate(histories.windows[:6]):
        items = data.events.items[window.rows]
        assert lesson.people.history[i, : len(items) - 1].tolist() == items[:-1].tolist()
        assert lesson.chosen[i, : len(items)].tolist() == items.tolist()
        assert lesson.counted[i].sum() == len(items) - (not window.first)
        assert not lesson.counted[i, len(items) :].any()


@pytest.mark.parametrize("part", [VALID, TEST])
def test_a_question_is_asked_with_the_past_alone(data, part):
    histories = Histories(data, longest=100)
    for question in histories.questions(part):
        rows = histories.before(question)
        assert (rows < question.row).all() and (data.events.times[rows] <= data.events.times[question.row]).all()
        assert (data.events.users[rows] == question.user).all()
        assert not data.items.held[data.events.items[rows]].any()


def test_new_ones_have_no_number(data):
    histories = Histories(data, longest=100)
    users, items = histories.of_new_users(), histories.of_new_items()
    assert users and items
    assert (histories.ask(users).numbers == 0).all()
    assert (histories.shelf.numbers[data.events.items[[question.row for question in items]]] == 0).all()
    assert (histories.shelf.numbers == 0).sum() == data.items.held.sum()


@pytest.mark.parametrize("foretold", [False, True])
def test_at_random_only_what_is_learnt_from_is_history(foretold):
    data = dataset.gather(films.make(30, 40, seed=3), DatasetOptions("random"))
    histories = Histories(data, longest=100, split="random", foretold=foretold)
    for question in histories.questions(TEST):
        known = histories.before(question)
        own = np.flatnonzero((data.events.users == question.user) & (data.parts == TRAIN))
        assert known.tolist() == [row for row in own if row < question.row or not foretold]


@pytest.mark.parametrize(("split", "foretold"), [("random", False), ("random", True), ("leave_one_out", False)])
def test_what_is_judged_is_never_in_sight(split, foretold):
    data = dataset.gather(films.make(30, 40, seed=3), DatasetOptions(split))
    histories = Histories(data, longest=10, split=split, foretold=foretold)
    lesson = histories.lesson(np.arange(8))
    size = lesson.people.history.shape[1]
    assert lesson.sight.shape == (size + 1, size) and not lesson.sight.diagonal().any()
    later = torch.ones(size + 1, size, dtype=torch.bool).triu(1)
    assert bool((lesson.sight & later).any()) == (split == "random" and not foretold)
    assert torch.equal(
        lesson.chosen[:, :size][lesson.people.lengths == size], lesson.people.history[lesson.people.lengths == size]
    )
