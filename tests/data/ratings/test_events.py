"""Duplicates and unordered times are corrected and reported; invalid ratings are refused with their line."""

from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.data.ratings import events
from regard.data.ratings.rating_files import RatingTables
from regard.data.ratings.tables import Columns, Table


def rating_tables(rows, *, encoding="", **columns):
    names = ("user", "item", "rating", "time")
    cells = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return RatingTables((Table(Path("r.csv"), cells, 2, encoding),), None, None, Columns(**columns))


def test_sorted_by_user_then_time_and_2_comes_before_10():
    indexed = events.index_events(rating_tables([("10", "a", "3", "5"), ("2", "b", "4", "9"), ("2", "a", "5", "1")]))
    assert indexed.user_ids == ["2", "10"] and indexed.item_ids == ["a", "b"]
    assert indexed.events.users.tolist() == [0, 0, 1] and indexed.events.items.tolist() == [0, 1, 0]
    assert indexed.scale == (3.0, 5.0)
    assert indexed.remarks == ["times are out of order in 1 lines; they are sorted by time"]


def test_the_last_of_duplicate_ratings_counts():
    indexed = events.index_events(rating_tables([("1", "a", "1", "1"), ("1", "b", "2", "2"), ("1", "a", "5", "3")]))
    assert indexed.events.items.tolist() == [1, 0] and indexed.events.ratings.tolist() == [2.0, 5.0]
    assert "1 ratings are of an item that the same user rated again; the last rating counts" in indexed.remarks


def test_latin_1_is_reported():
    assert (
        "r.csv is not UTF-8 and was read as Latin-1"
        in events.index_events(rating_tables([("1", "a", "1", "1")], encoding="Latin-1")).remarks
    )


def test_dates_are_times():
    rows = [("1", "a", "1", "2021-05-02"), ("1", "b", "1", "2021-05-01 12:30")]
    indexed = events.index_events(rating_tables(rows))
    assert indexed.events.items.tolist() == [1, 0]


def test_without_ratings_and_times_rows_are_choices_in_order():
    indexed = events.index_events(rating_tables([("1", "b", "", ""), ("1", "a", "", "")], rating="", time=""))
    assert indexed.events.items.tolist() == [1, 0] and indexed.events.ratings.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("rows", "scale", "message"),
    [
        (
            [("1", "a", "3", "0"), ("1", "b", "7", "1"), ("1", "c", "9", "1")],
            (1, 5),
            r"r.csv:3: rating 7 \(and 1 more\) is outside the scale 1 to 5; correct it, or give data.scale",
        ),
        ([("1", "a", "good", "0")], None, "r.csv:2: rating='good' is not a number"),
        ([("1", "a", "3", "yesterday")], None, "r.csv:2: time='yesterday' is neither a number nor a date"),
        ([], None, "r.csv: contains no ratings"),
    ],
)
def test_invalid_ratings_are_refused(rows, scale, message):
    with pytest.raises(DataError, match=message):
        events.index_events(rating_tables(rows), scale)
