"""Which files of a folder hold ratings, users and items: MovieLens 100K, 1M and ratings.csv, or tables of one's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError
from regard.data.examples import COMPRESSED_SUFFIXES, split_of, strip_compression
from regard.data.ratings import tables
from regard.data.ratings import tables as ratings_tables
from regard.data.ratings.tables import COLUMN_ROLES, Columns, Table, positional_names, rename_columns

YEAR = re.compile(r"\((\d{4})\)\s*$")
UNNAMED_COLUMN = re.compile(r"|Unnamed: \d+")
FIVE_STAR_SCALE, HALF_STAR_SCALE = (1.0, 5.0), (0.5, 5.0)


class RatingTables(NamedTuple):
    """Tables with the columns that they are asked for."""

    ratings: tuple[Table, ...]  # one, or one for each split that the files are named after
    users: Table | None
    items: Table | None
    columns: Columns
    scale: tuple[float, float] | None = None  # of the ratings, where the layout says it
    splits: tuple[str, ...] = ()  # of each table of ratings


def find_tables(path: Path, columns: Columns) -> RatingTables:
    """A file or a folder -> its tables."""
    if path.is_file():
        return _named(RatingTables((tables.read(path, partial(positional_names, columns)),), None, None, columns))
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    for layout in (_movielens_100k, _movielens_1m, _movielens_csv):
        found = layout(path)
        if found is not None:
            return found
    return _named(_own(path, columns))


def _file(folder: Path, *names: str) -> Path | None:
    """The first of these files that is there, packed or not."""
    paths = [folder / f"{name}{packed}" for name in names for packed in ("", *COMPRESSED_SUFFIXES)]
    return next((path for path in paths if path.is_file()), None)


def _movielens_100k(folder: Path) -> RatingTables | None:
    """u.data, or a training and a test part of it, with u.user and u.item."""
    users, items, whole = _file(folder, "u.user"), _file(folder, "u.item"), _file(folder, "u.data")
    if items is None:
        return None
    parts = sorted(
        path
        for path in folder.iterdir()
        if strip_compression(path).suffix == ".tsv" and split_of(strip_compression(path).stem)
    )
    files = [whole] if whole else sorted(parts, key=lambda path: split_of(strip_compression(path).stem) != "train")
    if not files:
        raise DataError(f"{folder}: u.item is there, but no u.data and no train.tsv with the ratings")
    told = None if users is None else tables.read(users, ("user", "age", "gender", "occupation", "zip"))
    people = None if told is None else _without(told, "zip")
    splits = tuple(split_of(strip_compression(path).stem) or "train" for path in files) if not whole else ()
    ratings = tuple(tables.read(path, COLUMN_ROLES) for path in files)
    return RatingTables(ratings, people, _films_100k(folder, items), Columns(), FIVE_STAR_SCALE, splits)


def _films_100k(folder: Path, path: Path) -> Table:
    listed = _file(folder, "u.genre")
    genres = [] if listed is None else [line.split("|")[0] for line in _lines(listed)]
    width = len(_lines(path)[0].split("|"))
    names = genres if len(genres) == width - 5 else [f"genre {i}" for i in range(width - 5)]
    table = tables.read(path, ("item", "title", "date", "video", "address", *names))
    flags = [table.column(name) for name in names]
    marked = [
        "|".join(n for n, cells in zip(names, flags, strict=True) if cells[i].strip() == "1") for i in range(len(table))
    ]
    years = [date[-4:] for date in table.column("date")]
    own = {"item": table.column("item"), "title": table.column("title"), "year": years, "genres": marked}
    return replace(table, columns=own)


def _lines(path: Path) -> list[str]:
    return [line for line in tables.read_lines(path) if line.strip()]


def _movielens_1m(folder: Path) -> RatingTables | None:
    """ratings.dat, users.dat and movies.dat, with :: between the cells."""
    ratings, users, films = (_file(folder, f"{name}.dat") for name in ("ratings", "users", "movies"))
    if ratings is None or films is None:
        return None
    people = None if users is None else tables.read(users, ("user", "gender", "age", "occupation", "zip"))
    items = _with_years(tables.read(films, ("item", "title", "genres")))
    own = None if people is None else _without(people, "zip")
    return RatingTables((tables.read(ratings, COLUMN_ROLES),), own, items, Columns(), FIVE_STAR_SCALE)


def _movielens_csv(folder: Path) -> RatingTables | None:
    """ratings.csv and movies.csv of the later sets."""
    ratings, films = _file(folder, "ratings.csv"), _file(folder, "movies.csv")
    if ratings is None or films is None:
        return None
    table, listed = tables.read(ratings), tables.read(films)
    if "movieId" not in table.columns or "movieId" not in listed.columns:
        return None
    names = {"userId": "user", "movieId": "item", "timestamp": "time"}
    items = _with_years(rename_columns(listed, names, ids=("item",)))
    return RatingTables((rename_columns(table, names, ids=("user", "item")),), None, items, Columns(), HALF_STAR_SCALE)


def _own(folder: Path, columns: Columns) -> RatingTables:
    """ratings.csv (or interactions, clicks, or one for each split) with users.csv and items.csv beside it."""

    def table(*stems: str) -> Path | None:
        return _file(folder, *(f"{stem}{kind}" for stem in stems for kind in tables.SUFFIXES))

    whole = table("ratings", "interactions", "clicks")
    parts = {split: table(split) for split in ("train", "valid", "test")}
    files = {"": whole} if whole else {split: path for split, path in parts.items() if path}
    if not files:
        raise DataError(
            f"{folder}: no ratings; expected ratings.csv (or .tsv, .parquet, …), or train.csv and test.csv, with "
            "users.csv and items.csv where there are profiles"
        )
    people, things = table("users"), table("items", "movies")
    read = {
        split: tables.read(path, partial(positional_names, columns))
        for split, path in files.items()
        if path is not None
    }
    users = None if people is None else tables.read(people)
    items = None if things is None else tables.read(things)
    return RatingTables(tuple(read.values()), users, items, columns, splits=() if whole else tuple(read))


def _named(found: RatingTables) -> RatingTables:
    """The same, every column that is asked for under the name that it is asked for by."""
    columns = found.columns
    return found._replace(
        ratings=tuple(ratings_tables.rename_rating_columns(table, columns) for table in found.ratings),
        users=None if found.users is None else ratings_tables.rename_id_column(found.users, "user", columns.user),
        items=None if found.items is None else ratings_tables.rename_id_column(found.items, "item", columns.item),
    )


def _without(table: Table, *names: str) -> Table:
    return replace(table, columns={name: cells for name, cells in table.columns.items() if name not in names})


def _with_years(table: Table) -> Table:
    """A table of films whose titles end with the year: "Toy Story (1995)"."""
    years = [match[1] if (match := YEAR.search(title)) else "" for title in table.column("title")]
    return replace(table, columns={**table.columns, "year": years})


def profile_columns(table: Table | None, leave_out: Sequence[str]) -> dict[str, list[str]]:
    """The columns of a table that may be part of a profile; one without a name has row numbers, by pandas."""
    own = {} if table is None else table.columns
    return {name: cells for name, cells in own.items() if name not in leave_out and not UNNAMED_COLUMN.fullmatch(name)}
