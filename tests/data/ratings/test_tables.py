"""Tables of every kind, and what is wrong with those that cannot be read."""

import gzip

import pytest

from regard.core.errors import DataError
from regard.data.ratings import tables


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


def test_packed_and_without_a_header(tmp_path):
    path = tmp_path / "u.data.gz"
    path.write_bytes(gzip.compress(b"1\t2\n3\t4\n"))
    assert tables.read(path, ("user", "item")).columns == {"user": ["1", "3"], "item": ["2", "4"]}


def test_latin_1_is_read_and_said(tmp_path):
    table = tables.read(written(tmp_path / "x.csv", "item,title\n1,Misérables\n", "latin-1"))
    assert table.encoding == "Latin-1" and table.column("title") == ["Misérables"]


def test_korean_tables_of_old_are_read(tmp_path):
    table = tables.read(written(tmp_path / "x.csv", "item,title\n1,올드보이\n2,기생충\n", "cp949"))
    assert table.encoding == "CP949" and table.column("title") == ["올드보이", "기생충"]


def test_parquet_with_lists_and_gaps(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"item": [1, 2], "genres": [["a", "b"], None], "price": [1.5, None]})
    parquet.write_table(table, tmp_path / "x.parquet")
    read = tables.read(tmp_path / "x.parquet")
    assert read.columns == {"item": ["1", "2"], "genres": ["a|b", ""], "price": ["1.5", ""]}


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
def test_what_cannot_be_read_is_said(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        tables.read(written(tmp_path / name, text))


def test_what_is_broken_or_not_there_is_said(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        tables.read(tmp_path / "x.csv")
    with pytest.raises(DataError, match="cannot be read"):
        tables.read(written(tmp_path / "x.csv.gz", "no"))


def test_a_wrong_column_suggests_one(tmp_path):
    table = tables.read(written(tmp_path / "x.csv", "userId,movieId\n1,2\n"))
    with pytest.raises(DataError, match="no column 'userid'; did you mean 'userId'\\?"):
        table.column("userid")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp949"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_csv_as_excel_writes_it(tmp_path, mark, encoding):
    text = f'user{mark}title\r\n007{mark}"기생충{mark} ""one""\r\ntwo"\r\n\r\n8{mark} plain \r\n'
    table = tables.read(written(tmp_path / "x.csv", text, encoding))
    assert table.column("user") == ["007", "8"]
    assert [title.split() for title in table.column("title")] == [[f"기생충{mark}".strip(), '"one"', "two"], ["plain"]]
    assert table.location(0).endswith("x.csv:2") and table.location(1).endswith("x.csv:5")


def test_what_parts_the_cells_may_be_told_or_differ_from_the_name(tmp_path):
    expected = {"user": ["1"], "rating": ["4.5"]}
    assert tables.read(written(tmp_path / "x.csv", "sep=;\nuser;rating\n1;4,5\n")).columns == expected
    assert tables.read(written(tmp_path / "x.txt", "user,rating\n1,4.5\n")).columns == expected
    assert tables.read(written(tmp_path / "x.dat", "user\trating\n1\t4.5\n")).columns == expected


def test_only_line_ends_end_a_line(tmp_path):
    table = tables.read(written(tmp_path / "x.tsv", "item\ttitle\n1\tone\u2028line\x0b\n"))
    assert table.columns == {"item": ["1"], "title": ["one\u2028line"]}
    assert tables.read(written(tmp_path / "x.tsv", "item\ttitle\r1\tone\r")).columns["title"] == ["one"]


def test_ids_of_parquet_with_gaps_are_whole(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"item": [1.0, float("nan"), 2.5]}), tmp_path / "x.parquet")
    assert tables.read(tmp_path / "x.parquet").columns == {"item": ["1", "", "2.5"]}
