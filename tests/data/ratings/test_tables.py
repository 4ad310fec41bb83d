"""Tables of every kind, error messages for unreadable ones, and columns found by name, alias or index."""

import gzip
import re
import time
from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.data.ratings import rating_files, tables
from regard.data.ratings.tables import Columns, Table

ROWS = [("u4", "item-6", "5", "1000"), ("u4", "item-7", "3", "1001"), ("u5", "item-6", "4", "1002")]
INDICES = Columns("1", "2", "3", "4")


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.csv", 'user,item\n1,"a, b"\n'), ("x.tsv", "user\titem\n1\ta, b\n"), ("x.dat", "user::item\n1::a, b\n")],
)
def test_kinds_by_suffix(tmp_path, name, text):
    table = tables.read(written(tmp_path / name, text))
    assert table.columns == {"user": ["1"], "item": ["a, b"]}
    assert table.location(0).endswith(f"{name}:2") and not table.encoding and len(table) == 1


def test_compressed_and_without_a_header(tmp_path):
    path = tmp_path / "u.data.gz"
    path.write_bytes(gzip.compress(b"1\t2\n3\t4\n"))
    assert tables.read(path, ("user", "item")).columns == {"user": ["1", "3"], "item": ["2", "4"]}


def test_latin_1_is_read_and_reported(tmp_path):
    table = tables.read(written(tmp_path / "x.csv", "item,title\n1,Misérables\n", "latin-1"))
    assert table.encoding == "Latin-1" and table.column("title") == ["Misérables"]


def test_korean_cp949_tables_are_read(tmp_path):
    table = tables.read(written(tmp_path / "x.csv", "item,title\n1,올드보이\n2,기생충\n", "cp949"))
    assert table.encoding == "CP949" and table.column("title") == ["올드보이", "기생충"]


def test_parquet_with_lists_and_gaps(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"item": [1, 2], "genres": [["a", "b"], None], "price": [1.5, None]})
    parquet.write_table(table, tmp_path / "x.parquet")
    columns = tables.read(tmp_path / "x.parquet").columns
    assert columns == {"item": ["1", "2"], "genres": ["a|b", ""], "price": ["1.5", ""]}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.xls", "a", "unknown kind of table; expected .csv"),
        ("x.csv", "a,a\n1,2\n", "two columns of the same name in its first line: a, a"),
        ("x.csv", "a,b\n1\n", "x.csv:2: 1 cells, but there are 2 columns"),
        ("x.csv", 'a,b\n"1"2,3\n', "not CSV"),
        ("x.csv", "", "the file is empty"),
        ("x.parquet", "no", "not Parquet"),
    ],
)
def test_invalid_tables_are_refused(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        tables.read(written(tmp_path / name, text))


def test_missing_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        tables.read(tmp_path / "x.csv")
    with pytest.raises(DataError, match="cannot be read"):
        tables.read(written(tmp_path / "x.csv.gz", "no"))


def test_an_unknown_column_gets_a_suggestion(tmp_path):
    table = tables.read(written(tmp_path / "x.csv", "userId,movieId\n1,2\n"))
    with pytest.raises(DataError, match="no column 'userid'; did you mean 'userId'\\?"):
        table.column("userid")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp949"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_as_excel_writes_it(tmp_path, separator, encoding):
    text = f'user{separator}title\r\n007{separator}"기생충{separator} ""one""\r\ntwo"\r\n\r\n8{separator} plain \r\n'
    table = tables.read(written(tmp_path / "x.csv", text, encoding))
    assert table.column("user") == ["007", "8"]
    titles = [title.split() for title in table.column("title")]
    assert titles == [[f"기생충{separator}".strip(), '"one"', "two"], ["plain"]]
    assert table.location(0).endswith("x.csv:2") and table.location(1).endswith("x.csv:5")


def test_the_separator_may_be_specified_or_differ_from_the_suffix(tmp_path):
    expected = {"user": ["1"], "rating": ["4.5"]}
    assert tables.read(written(tmp_path / "x.csv", "sep=;\nuser;rating\n1;4,5\n")).columns == expected
    assert tables.read(written(tmp_path / "x.txt", "user,rating\n1,4.5\n")).columns == expected
    assert tables.read(written(tmp_path / "x.dat", "user\trating\n1\t4.5\n")).columns == expected


def test_only_line_ends_end_a_line(tmp_path):
    table = tables.read(written(tmp_path / "x.tsv", "item\ttitle\n1\tone\u2028line\x0b\n"))
    assert table.columns == {"item": ["1"], "title": ["one\u2028line"]}
    assert tables.read(written(tmp_path / "x.tsv", "item\ttitle\r1\tone\r")).columns["title"] == ["one"]


def test_ids_of_parquet_with_gaps_are_integers(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"item": [1.0, float("nan"), 2.5]}), tmp_path / "x.parquet")
    assert tables.read(tmp_path / "x.parquet").columns == {"item": ["1", "", "2.5"]}


def write_rows(path, header, rows=ROWS):
    path.write_text("".join(f"{','.join(row)}\n" for row in ([header, *rows] if header else rows)), encoding="utf-8")
    return path


def cells(path, columns):
    table = rating_files.find_tables(path, columns).ratings[0]
    return list(zip(*(table.column(name) for name in columns.requested.values()), strict=True))


@pytest.mark.parametrize(
    "header",
    [
        ("user_id", "item_id", "rating", "timestamp"),
        ("userId", "movieId", "score", "date"),
        ("User ID", "Product", "Stars", "Time"),
        ("사용자", "영화", "평점", "날짜"),
    ],
)
def test_columns_are_found_by_common_aliases(tmp_path, header):
    assert cells(write_rows(tmp_path / "x.csv", header), Columns()) == ROWS


def test_the_exact_name_has_priority(tmp_path):
    rows = [("1", "u4", "item-6", "5", "1000", "2021-05-01")]
    path = write_rows(tmp_path / "x.csv", ("userId", "user", "item", "rating", "time", "date"), rows)
    assert cells(path, Columns()) == [("u4", "item-6", "5", "1000")]


def test_column_indices_without_a_header(tmp_path):
    path = write_rows(tmp_path / "x.csv", None)
    assert cells(path, INDICES) == ROWS
    assert cells(path, Columns("2", "1", "", "")) == [row[1::-1] for row in ROWS]
    assert rating_files.find_tables(path, INDICES).ratings[0].location(0) == f"{path}:1"
    same = write_rows(tmp_path / "y.csv", None, [("1", "1", "1", "1")])
    assert cells(same, INDICES) == [("1", "1", "1", "1")]


def test_column_indices_with_a_header(tmp_path):
    path = write_rows(tmp_path / "x.csv", ("wer", "was", "note", "wann"))
    assert cells(path, Columns("1", "was", "3", "4")) == ROWS
    assert cells(path, Columns("1", "2", "3", "4", header=True)) == ROWS
    message = (
        r"x\.csv: is its first line, 'wer', 'was', 'note', 'wann', a header\? If it is: data\.header=true; if it is a "
        r"rating: data\.header=false$"
    )
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(path, INDICES)
    assert cells(path, Columns("1", "2", "3", "4", header=False)) == [("wer", "was", "note", "wann"), *ROWS]


def test_a_first_line_with_numbers_is_a_rating(tmp_path):
    message = (
        r"x\.csv: its first line, 'u4', 'item-6', '5', '1000', is a rating and does not name the columns; "
        r"give their indices: data\.user=1 data\.item=2 data\.rating=3 data\.time=4; or if it is a header: "
        r"data\.header=true$"
    )
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(write_rows(tmp_path / "x.csv", None), Columns())
    reordered = [("1619872200", "7", "70", "4.5"), ("1619872201", "7", "71", "3")]
    with pytest.raises(DataError, match=r"data\.user=2 data\.item=3 data\.rating=4 data\.time=1; or"):
        rating_files.find_tables(write_rows(tmp_path / "y.csv", None, reordered), Columns())


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            ("user", "item", "rating", "when"),
            r"x\.csv: no column 'time'; columns not used yet: when; set data\.time=when, or data\.time='' \(rows are "
            r"in order\)$",
        ),
        (
            ("user", "item", "liking", "time"),
            r"no column 'rating'; did you mean 'liking'\? Set data\.rating=liking, or data\.rating='' "
            r"\(every row is a choice\)$",
        ),
        (
            ("user", "item", "rating", "bought at"),
            r"no column 'time'; columns not used yet: bought at; set data\.time='bought at', or data\.time=''",
        ),
        (("who", "item", "rating", "time"), r"no column 'user'; columns not used yet: who; set data\.user=who$"),
        (
            ("who", "item", "rating", "bought at"),
            r"no column 'user'; columns not used yet: bought at, who; set data\.user=who data\.time='bought at'$",
        ),
    ],
)
def test_a_column_of_another_name_is_suggested_with_its_setting(tmp_path, header, message):
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(write_rows(tmp_path / "x.csv", header), Columns())


def test_clicks_without_names(tmp_path):
    path = write_rows(tmp_path / "x.csv", None, [("ann", "apple"), ("bob", "pear")])
    message = (
        r"no column 'user'; columns not used yet: ann, apple; set data\.user=ann data\.item=apple; or if its "
        r"first line is not a header: data\.user=1 data\.item=2$"
    )
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(path, Columns(rating="", time=""))


def test_indices_out_of_range_or_equal_are_refused(tmp_path):
    path = write_rows(tmp_path / "x.csv", None)
    with pytest.raises(DataError, match=r"x\.csv: data\.time=5: there are 4 columns, counted from 1$"):
        rating_files.find_tables(path, Columns("1", "2", "3", "5"))
    with pytest.raises(DataError, match=r"x\.csv: data\.item=1 is column '1', which is already '1'$"):
        rating_files.find_tables(path, Columns("1", "1", "3", "4"))


def test_tables_of_users_and_items_with_ratings_by_index(tmp_path):
    write_rows(tmp_path / "ratings.csv", None)
    write_rows(tmp_path / "users.csv", ("id", "town"), [("u4", "Seoul"), ("u5", "Busan")])
    write_rows(tmp_path / "items.csv", ("itemId", "title"), [("item-6", "Six")])
    result = rating_files.find_tables(tmp_path, INDICES)
    assert result.users is not None and result.users.column("1") == ["u4", "u5"]
    assert result.items is not None and result.items.column("2") == ["item-6"]
    write_rows(tmp_path / "users.csv", ("who", "town"), [("u4", "Seoul")])
    message = r"users\.csv: no column 'user'; known: town, who; it has the ids that are in the ratings$"
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(tmp_path, INDICES)


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
def test_invalid_times(cell):
    assert tables.parse_timestamp(cell) is None


def test_a_table_without_ratings_gets_the_setting_for_clicks():
    table = Table(Path("x.csv"), {"user": ["1"], "item": ["2"], "time": ["3"]})
    message = r"no column 'rating'; all are in use; set data\.rating='' \(every row is a choice\), or name its column: "
    with pytest.raises(DataError, match=message + r"data\.rating=…$"):
        tables.rename_rating_columns(table, Columns())


def test_all_missing_columns_are_in_one_message():
    table = Table(Path("x.csv"), {"user": ["1"], "item": ["2"]})
    message = (
        "x.csv: no column 'rating'; all are in use; set data.rating='' data.time='' (every row is a choice, rows are "
        "in order), or name them: data.rating=… data.time=…"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        tables.rename_rating_columns(table, Columns())
