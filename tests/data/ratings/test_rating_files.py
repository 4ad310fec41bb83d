"""MovieLens 100K, 1M and CSV, and custom tables: all give the same columns."""

from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.data.ratings import dataset, events, rating_files, user_query
from regard.data.ratings.tables import Columns

REAL = Path(__file__).parents[4] / "shared" / "data" / "ml-100k"
ITEM = "1|Toy Story (1995)|01-Jan-1995||http|0|1|1\n2|Café (1990)|||http|1|0|0\n"


def folder(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text, encoding="latin-1" if name == "u__item" else "utf-8")
    return tmp_path


def test_movielens_100k(tmp_path):
    path = folder(
        tmp_path,
        u__data="1\t1\t5\t100\n1\t2\t3\t200\n",
        u__user="1|24|M|writer|85711\n",
        u__item=ITEM,
        u__genre="unknown|0\nComedy|1\nDrama|2\n",
    )
    result = rating_files.find_tables(path, Columns())
    assert result.scale == (1.0, 5.0) and result.splits == () and result.items is not None and result.users is not None
    assert result.items.columns["genres"] == ["Comedy|Drama", "unknown"] and result.items.columns["year"] == [
        "1995",
        "",
    ]
    assert list(result.users.columns) == ["user", "age", "gender", "occupation"] and result.items.encoding == "Latin-1"


def test_movielens_100k_in_two_parts(tmp_path):
    path = folder(tmp_path, train__tsv="1\t1\t5\t100\n", test_ua__tsv="1\t2\t3\t200\n", u__item=ITEM)
    assert rating_files.find_tables(path, Columns()).splits == ("train", "test")


def test_movielens_1m_and_csv(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    million = folder(
        tmp_path / "a",
        ratings__dat="1::1::5::100\n",
        users__dat="1::F::25::3::12345\n",
        movies__dat="1::Toy Story (1995)::Animation|Comedy\n",
    )
    later = folder(
        tmp_path / "b",
        ratings__csv="userId,movieId,rating,timestamp\n1,1,4.5,100\n",
        movies__csv='movieId,title,genres\n1,"Postman, The (1997)",Drama\n',
    )
    for path, year, scale in ((million, "1995", (1.0, 5.0)), (later, "1997", (0.5, 5.0))):
        result = rating_files.find_tables(path, Columns())
        assert result.items is not None and result.items.columns["year"] == [year] and result.scale == scale
        assert {"user", "item", "rating", "time"} <= set(result.ratings[0].columns)


def test_custom_tables(tmp_path):
    path = folder(
        tmp_path,
        clicks__tsv="who\twhat\n1\ta\n",
        users__csv="who,town\n1,Seoul\n",
        items__csv="what,title,price\na,Apple,2.5\n",
    )
    result = rating_files.find_tables(path, Columns("who", "what", "", "", "title"))
    assert rating_files.profile_columns(result.items, ("what", "title")) == {"price": ["2.5"]}
    assert rating_files.find_tables(path / "clicks.tsv", Columns("who", "what", "", "")).users is None


@pytest.mark.parametrize(
    ("rating_id", "user_id"), [("{}.0", "{}"), ("{}", "{}.0"), ("{}.0", "{}.0"), ("{}", "{}")], ids=str
)
def test_ids_that_pandas_wrote_as_decimals_are_the_same(tmp_path, rating_id, user_id):
    rows = [(user, user + item, item % 5 + 1) for user in (1, 2, 3) for item in range(4)]
    lines = [f"{rating_id.format(user)},{rating_id.format(item)},{stars}" for user, item, stars in rows]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]))
    ages = [f"{user_id.format(user)},{20 + user}" for user in (1, 2, 3)]
    (tmp_path / "users.csv").write_text("\n".join(["user,age", *ages]))
    data = dataset.build_collection(rating_files.find_tables(tmp_path, Columns(time="")), dataset.DatasetOptions())
    assert data.users.ids == ("1", "2", "3") and data.items.ids == tuple("123456")
    assert data.users.cells["age"] == ("21", "22", "23") and not data.remarks
    for name in ("2", "2.0"):
        assert user_query.resolve(data, user=name, profile="", history="").user == 1


def test_ids_that_are_not_numbers_are_unchanged(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\n1.0,1.0,3\nann,2.5,4\n")
    table = rating_files.find_tables(tmp_path, Columns(time="")).ratings[0]
    assert table.column("user") == ["1.0", "ann"] and table.column("item") == ["1.0", "2.5"]


def test_the_row_index_of_pandas_is_not_a_profile_column(tmp_path):
    (tmp_path / "ratings.csv").write_text(",user,item,rating\n0,1,a,3\n1,1,b,4\n2,1,c,5\n")
    (tmp_path / "users.csv").write_text(",user,age\n0,1,20\n")
    (tmp_path / "items.csv").write_text("Unnamed: 0,item,price\n0,a,1\n1,b,2\n2,c,3\n")
    data = dataset.build_collection(rating_files.find_tables(tmp_path, Columns(time="")), dataset.DatasetOptions())
    assert [field.name for field in (*data.users.fields, *data.items.fields)] == ["age", "price"]


def test_an_unknown_column_name_gets_a_suggestion(tmp_path):
    path = folder(tmp_path, ratings__csv="user,item,stars,time\n1,a,3,0\n")
    with pytest.raises(DataError, match="no column 'star'; did you mean 'stars'"):
        rating_files.find_tables(path, Columns(rating="star"))


@pytest.mark.parametrize(
    ("files", "message"),
    [({}, "no ratings; expected ratings.csv"), ({"u__item": ITEM}, "has u.item, but neither u.data")],
)
def test_a_folder_without_ratings(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        rating_files.find_tables(folder(tmp_path, **files), Columns())


def test_no_such_folder(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        rating_files.find_tables(tmp_path / "nowhere", Columns())


@pytest.mark.skipif(not REAL.is_dir(), reason="MovieLens 100K is not there")
def test_the_real_movielens_100k():
    result = rating_files.find_tables(REAL, Columns())
    data = dataset.build_collection(result, dataset.DatasetOptions())
    assert (len(data.users.ids), len(data.items.ids), len(data.events.users)) == (943, 1682, 90570)
    assert [(data.split_ids == split_id).sum() for split_id in (1, 2)] == [943, 943]
    assert [field.kind for field in data.users.fields] == ["number", "category", "category"]
    with pytest.raises(DataError, match="training ratings come from the future"):  # its test part is not later
        dataset.build_collection(result, dataset.DatasetOptions("files"))


@pytest.mark.parametrize("names", [("ratings_1.csv", "ratings_2.csv"), ("january.csv", "february.csv")])
def test_several_tables_of_ratings_are_joined_and_reported(tmp_path, names):
    for user, name in enumerate(names):
        (tmp_path / name).write_text(f"user,item,rating,time\nu{user},a,5,1\nu{user},b,4,2\n", encoding="utf-8")
    tables = rating_files.find_tables(tmp_path, Columns())
    assert sorted(user for table in tables.ratings for user in table.column("user")) == ["u0", "u0", "u1", "u1"]
    remarks = events.index_events(tables).remarks
    assert remarks[0] == f"{tmp_path}: 2 files are joined: {', '.join(sorted(names))}"


def test_tables_of_ratings_with_different_columns_are_refused(tmp_path):
    (tmp_path / "ratings_1.csv").write_text("user,item,rating,time\nu,a,5,1\n", encoding="utf-8")
    (tmp_path / "ratings_2.csv").write_text("user,item,stars,time\nu,a,5,1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"2 tables of ratings with different columns \(ratings_1.csv: user"):
        rating_files.find_tables(tmp_path, Columns())
