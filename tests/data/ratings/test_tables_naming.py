"""Columns of ratings: by usual names, by number, and what is asked where neither is there."""

import time
from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.data.ratings import rating_files, tables
from regard.data.ratings.tables import Columns, Table

ROWS = [("u4", "item-6", "5", "1000"), ("u4", "item-7", "3", "1001"), ("u5", "item-6", "4", "1002")]
NUMBERS = Columns("1", "2", "3", "4")


def write(path, header, rows=ROWS):
    path.write_text("".join(f"{','.join(row)}\n" for row in ([header, *rows] if header else rows)), encoding="utf-8")
    return path


def cells(path, columns):
    table = rating_files.find_tables(path, columns).ratings[0]
    return list(zip(*(table.column(name) for name in columns.wanted.values()), strict=True))


@pytest.mark.parametrize(
    "header",
    [
        ("user_id", "item_id", "rating", "timestamp"),
        ("userId", "movieId", "score", "date"),
        ("User ID", "Product", "Stars", "Time"),
        ("사용자", "영화", "평점", "날짜"),
    ],
)
def test_columns_are_known_by_what_people_call_them(tmp_path, header):
    assert cells(write(tmp_path / "x.csv", header), Columns()) == ROWS


def test_a_column_of_that_very_name_comes_first(tmp_path):
    rows = [("1", "u4", "item-6", "5", "1000", "2021-05-01")]
    path = write(tmp_path / "x.csv", ("userId", "user", "item", "rating", "time", "date"), rows)
    assert cells(path, Columns()) == [("u4", "item-6", "5", "1000")]


def test_numbers_of_columns_without_a_header(tmp_path):
    path = write(tmp_path / "x.csv", None)
    assert cells(path, NUMBERS) == ROWS
    assert cells(path, Columns("2", "1", "", "")) == [row[1::-1] for row in ROWS]
    assert rating_files.find_tables(path, NUMBERS).ratings[0].location(0) == f"{path}:1"
    same = write(tmp_path / "y.csv", None, [("1", "1", "1", "1")])
    assert cells(same, NUMBERS) == [("1", "1", "1", "1")]


def test_numbers_of_columns_with_a_header(tmp_path):
    path = write(tmp_path / "x.csv", ("wer", "was", "note", "wann"))
    assert cells(path, Columns("1", "was", "3", "4")) == ROWS
    assert cells(path, Columns("1", "2", "3", "4", header=True)) == ROWS
    message = (
        r"x\.csv: is its first line, 'wer', 'was', 'note', 'wann', a header\? If it is: data\.header=true; if it is a "
        r"rating: data\.header=false$"
    )
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(path, NUMBERS)
    assert cells(path, Columns("1", "2", "3", "4", header=False)) == [("wer", "was", "note", "wann"), *ROWS]


def test_a_first_line_that_is_a_rating_is_told_by_numbers(tmp_path):
    message = (
        r"x\.csv: its first line, 'u4', 'item-6', '5', '1000', is a rating and names no columns; give their numbers: "
        r"data\.user=1 data\.item=2 data\.rating=3 data\.time=4; or if it is a header: data\.header=true$"
    )
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(write(tmp_path / "x.csv", None), Columns())
    turned = [("1619872200", "7", "70", "4.5"), ("1619872201", "7", "71", "3")]
    with pytest.raises(DataError, match=r"data\.user=2 data\.item=3 data\.rating=4 data\.time=1; or"):
        rating_files.find_tables(write(tmp_path / "y.csv", None, turned), Columns())


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            ("user", "item", "rating", "when"),
            r"x\.csv: no column 'time'; known: when; say which it is: data\.time=when, or data\.time='' \(rows are in "
            r"order\)$",
        ),
        (
            ("user", "item", "liking", "time"),
            r"no column 'rating'; did you mean 'liking'\? Say which it is: data\.rating=liking, or data\.rating='' "
            r"\(every row is a choice\)$",
        ),
        (
            ("user", "item", "rating", "bought at"),
            r"no column 'time'; known: bought at; say which it is: data\.time='bought at', or data\.time=''",
        ),
        (("who", "item", "rating", "time"), r"no column 'user'; known: who; say which it is: data\.user=who$"),
    ],
)
def test_a_column_that_is_called_otherwise_is_named_with_its_setting(tmp_path, header, message):
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(write(tmp_path / "x.csv", header), Columns())


def test_clicks_without_names(tmp_path):
    path = write(tmp_path / "x.csv", None, [("ann", "apple"), ("bob", "pear")])
    message = (
        r"no column 'user'; known: ann, apple; say which they are: data\.user=ann data\.item=apple; or if its "
        r"first line is no header: data\.user=1 data\.item=2$"
    )
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(path, Columns(rating="", time=""))


def test_numbers_that_are_no_columns_or_the_same(tmp_path):
    path = write(tmp_path / "x.csv", None)
    with pytest.raises(DataError, match=r"x\.csv: data\.time=5: there are 4 columns, counted from 1$"):
        rating_files.find_tables(path, Columns("1", "2", "3", "5"))
    with pytest.raises(DataError, match=r"x\.csv: data\.item=1 is column '1', which is '1' already$"):
        rating_files.find_tables(path, Columns("1", "1", "3", "4"))


def test_tables_of_users_and_items_beside_numbered_ratings(tmp_path):
    write(tmp_path / "ratings.csv", None)
    write(tmp_path / "users.csv", ("id", "town"), [("u4", "Seoul"), ("u5", "Busan")])
    write(tmp_path / "items.csv", ("itemId", "title"), [("item-6", "Six")])
    found = rating_files.find_tables(tmp_path, NUMBERS)
    assert found.users is not None and found.users.column("1") == ["u4", "u5"]
    assert found.items is not None and found.items.column("2") == ["item-6"]
    write(tmp_path / "users.csv", ("who", "town"), [("u4", "Seoul")])
    message = r"users\.csv: no column 'user'; known: town, who; it has the ids that are in the ratings$"
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(tmp_path, NUMBERS)


@pytest.mark.parametrize(
    "cell",
    [
        "2021-05-31",
        "2021/5/31",
        "2021.05.31",
        "2021. 5. 31.",
        "2021-05-31 0:00",
        "2021-05-31T09:00+09:00",
        "2021년 5월 31일",
        "1622419200000",
        "1622419200000000000",
    ],
)
def test_times_are_the_same_on_every_machine(cell, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    try:
        assert tables.parse_timestamp(cell) == 1622419200
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize("cell", ["31/05/2021", "2021/13/01", "", "soon"])
def test_what_is_no_time(cell):
    assert tables.parse_timestamp(cell) is None


def test_clicks_are_told_how_to_be_read():
    table = Table(Path("x.csv"), {"user": ["1"], "item": ["2"], "time": ["3"]})
    with pytest.raises(
        DataError, match=r"no column 'rating'; there is none; say data\.rating='' \(every row is a choice\)"
    ):
        tables.rename_rating_columns(table, tables.Columns())
