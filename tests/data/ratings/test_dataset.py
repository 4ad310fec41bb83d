"""A collection from tables, and from a run folder."""

from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.data.builtin import films
from regard.data.ratings import dataset
from regard.data.ratings.dataset import DatasetOptions
from regard.data.ratings.rating_files import RatingTables
from regard.data.ratings.splits import TRAIN
from regard.data.ratings.tables import Columns, Table


@pytest.fixture(scope="module")
def made():
    return films.generate(30, 24, seed=3)


def test_saved_and_loaded_it_is_the_same(made, tmp_path):
    one = dataset.build_collection(made, DatasetOptions(held_items=0.1))
    one.save(tmp_path)
    other = dataset.load(tmp_path)
    assert one.fingerprint() == other.fingerprint() and one.users.fields == other.users.fields
    assert np.array_equal(one.items.profiles, other.items.profiles) and one.remarks == other.remarks
    (tmp_path / dataset.EVENTS_FILE).write_bytes(b"x")
    with pytest.raises(CheckpointError, match="users, items and ratings cannot be read"):
        dataset.load(tmp_path)


def test_profiles_may_be_left_out(made):
    found = dataset.build_collection(made, DatasetOptions(profiles="items"))
    assert found.users.widths == () and found.users.profiles.shape == (30, 0) and len(found.items.widths) == 2


def test_what_is_said(made):
    held = dataset.build_collection(made, DatasetOptions(held_users=0.2)).remarks
    assert any("of users and items that are held out entirely" in note for note in held)
    assert any(
        "later than some that are held out" in note
        for note in dataset.build_collection(made, DatasetOptions("random")).remarks
    )


def test_users_with_few_ratings_are_learnt_from_and_said():
    rows = {"user": ["1", "2", "2", "2"], "item": ["a", "a", "b", "c"], "rating": list("3345"), "time": list("1234")}
    found = dataset.build_collection(RatingTables((Table(Path("x"), rows),), None, None, Columns()), DatasetOptions())
    assert "1 users have fewer than three ratings (1 have one): they are learnt from, never asked" in found.remarks
    assert found.item_counts.tolist() == [2, 0, 0] and found.user_offsets.tolist() == [0, 1, 4]


def test_ratings_between_are_left_out_where_likes_are_foretold(made):
    found = dataset.build_collection(made, DatasetOptions(left_out=(2.0, 4.0)))
    assert set(found.events.ratings.tolist()) <= {1.0, 2.0, 4.0, 5.0}
    with pytest.raises(DataError, match="no ratings both up to 0 and from 4 on"):
        dataset.build_collection(made, DatasetOptions(left_out=(0.0, 4.0)))


def test_something_must_be_left_to_learn_from(made):
    with pytest.raises(DataError, match="nothing is left to learn from"):
        dataset.build_collection(made, DatasetOptions(held_users=0.999))


def test_who_has_no_row_in_the_table_has_no_profile():
    ratings = Table(Path("r"), {"user": list("112"), "item": list("aba"), "rating": list("123"), "time": list("123")})
    users = Table(Path("u"), {"user": ["1"], "town": ["Seoul"]})
    found = dataset.build_collection(RatingTables((ratings,), users, None, Columns()), DatasetOptions())
    assert found.users.profile(1) == {"town": ""} and found.users.profiles[1].tolist() == [0.0, 1.0]
    assert found.items.titles == ("a", "b") and (found.split_ids == TRAIN).all()


def test_what_is_liked_is_rated_higher_than_what_is_not():
    with pytest.raises(ConfigError, match=r"^disliked=4 must be below liked=1; what lies between is left out$"):
        DatasetOptions(left_out=(4.0, 1.0))
