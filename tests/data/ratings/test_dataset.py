"""Collections built from tables, and loaded from a run folder."""

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
def tables():
    return films.generate(30, 24, seed=3)


def test_save_and_load_round_trip(tables, tmp_path):
    original = dataset.build_collection(tables, DatasetOptions(cold_items=0.1))
    original.save(tmp_path)
    loaded = dataset.load(tmp_path)
    assert original.fingerprint() == loaded.fingerprint() and original.users.fields == loaded.users.fields
    assert np.array_equal(original.items.profiles, loaded.items.profiles) and original.remarks == loaded.remarks
    (tmp_path / dataset.EVENTS_FILE).write_bytes(b"x")
    with pytest.raises(CheckpointError, match="users, items and ratings cannot be read"):
        dataset.load(tmp_path)


def test_profiles_may_be_left_out(tables):
    collection = dataset.build_collection(tables, DatasetOptions(profiles="items"))
    assert (
        collection.users.widths == ()
        and collection.users.profiles.shape == (30, 0)
        and len(collection.items.widths) == 2
    )


def test_remarks_on_splits(tables):
    remarks = dataset.build_collection(tables, DatasetOptions(cold_users=0.2)).remarks
    assert any("of users and items that are held out entirely" in note for note in remarks)
    assert any(
        "later than some that are held out" in note
        for note in dataset.build_collection(tables, DatasetOptions("random")).remarks
    )


def test_users_with_few_ratings_are_only_used_for_training():
    rows = {"user": ["1", "2", "2", "2"], "item": ["a", "a", "b", "c"], "rating": list("3345"), "time": list("1234")}
    collection = dataset.build_collection(
        RatingTables((Table(Path("x"), rows),), None, None, Columns()), DatasetOptions()
    )
    remark = "1 users have fewer than three ratings (1 have one): they are used for training, never for testing"
    assert remark in collection.remarks
    assert collection.item_counts.tolist() == [2, 0, 0] and collection.user_offsets.tolist() == [0, 1, 4]


def test_neutral_ratings_are_dropped(tables):
    collection = dataset.build_collection(tables, DatasetOptions(excluded_ratings=(2.0, 4.0)))
    assert set(collection.events.ratings.tolist()) <= {1.0, 2.0, 4.0, 5.0}
    with pytest.raises(DataError, match="no ratings both up to 0 and from 4 on"):
        dataset.build_collection(tables, DatasetOptions(excluded_ratings=(0.0, 4.0)))


def test_training_ratings_must_remain(tables):
    with pytest.raises(DataError, match="no training ratings are left"):
        dataset.build_collection(tables, DatasetOptions(cold_users=0.999))


def test_users_without_a_row_in_the_table_have_no_profile():
    ratings = Table(Path("r"), {"user": list("112"), "item": list("aba"), "rating": list("123"), "time": list("123")})
    users = Table(Path("u"), {"user": ["1"], "town": ["Seoul"]})
    collection = dataset.build_collection(RatingTables((ratings,), users, None, Columns()), DatasetOptions())
    assert collection.users.profile(1) == {"town": ""} and collection.users.profiles[1].tolist() == [0.0, 1.0]
    assert collection.items.titles == ("a", "b") and (collection.split_ids == TRAIN).all()


def test_disliked_must_be_below_liked():
    with pytest.raises(ConfigError, match=r"^disliked=4 must be below liked=1; ratings between them are dropped$"):
        DatasetOptions(excluded_ratings=(4.0, 1.0))
