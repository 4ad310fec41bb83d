"""Find and read the tables of ratings, users and items in a folder: MovieLens 100K, 1M and CSV, or custom tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError
from regard.data.examples import COMPRESSED_SUFFIXES, split_of, strip_compression
from regard.data.files.table_folders import check_not_nested, visible_files
from regard.data.ratings import tables
from regard.data.ratings.tables import COLUMN_ROLES, Columns, Table, positional_names, rename_columns

YEAR = re.compile(r"\((\d{4})\)\s*$")
UNNAMED_COLUMN = re.compile(r"|Unnamed: \d+")
RATING_STEMS = ("ratings", "interactions", "clicks")
PROFILE_STEMS = {"users": ("users",), "items": ("items", "movies")}
JOINED_SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet")  # of tables that are read whatever their name
FIVE_STAR_SCALE, HALF_STAR_SCALE = (1.0, 5.0), (0.5, 5.0)


class RatingTables(NamedTuple):
    """Tables whose columns have their configured names."""

    ratings: tuple[Table, ...]  # one, or one per split if files are named after splits
    users: Table | None
    items: Table | None
    columns: Columns
    scale: tuple[float, float] | None = None  # of the ratings, if the layout defines it
    splits: tuple[str, ...] = ()  # per table of ratings


def find_tables(path: Path, columns: Columns) -> RatingTables:
    """Read the tables of a file or a folder."""
    if path.is_file():
        ratings = tables.read(path, partial(positional_names, columns))
        return _rename_columns(RatingTables((ratings,), None, None, columns))
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    for read_layout in (_movielens_100k, _movielens_1m, _movielens_csv):
        result = read_layout(path)
        if result is not None:
            return result
    return _rename_columns(_custom_tables(path, columns))


def _find_file(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that exists, compressed or not."""
    paths = [folder / f"{name}{suffix}" for name in names for suffix in ("", *COMPRESSED_SUFFIXES)]
    return next((path for path in paths if path.is_file()), None)


def _movielens_100k(folder: Path) -> RatingTables | None:
    """Read u.data, or its training and test parts, with u.user and u.item."""
    user_file, item_file, data_file = (_find_file(folder, name) for name in ("u.user", "u.item", "u.data"))
    if item_file is None:
        return None
    parts = sorted(
        path
        for path in folder.iterdir()
        if strip_compression(path).suffix == ".tsv" and split_of(strip_compression(path).stem)
    )
    train_first = sorted(parts, key=lambda path: split_of(strip_compression(path).stem) != "train")
    files = [data_file] if data_file else train_first
    if not files:
        raise DataError(f"{folder}: has u.item, but neither u.data nor train.tsv with the ratings")
    user_columns = ("user", "age", "gender", "occupation", "zip")
    users = None if user_file is None else _without(tables.read(user_file, user_columns), "zip")
    splits = tuple(split_of(strip_compression(path).stem) or "train" for path in files) if not data_file else ()
    ratings = tuple(tables.read(path, COLUMN_ROLES) for path in files)
    return RatingTables(ratings, users, _movies_100k(folder, item_file), Columns(), FIVE_STAR_SCALE, splits)


def _movies_100k(folder: Path, path: Path) -> Table:
    genre_file = _find_file(folder, "u.genre")
    genres = [] if genre_file is None else [line.split("|")[0] for line in _nonempty_lines(genre_file)]
    width = len(_nonempty_lines(path)[0].split("|"))
    names = genres if len(genres) == width - 5 else [f"genre {i}" for i in range(width - 5)]
    table = tables.read(path, ("item", "title", "date", "video", "address", *names))
    flags = [table.column(name) for name in names]
    movie_genres = [
        "|".join(n for n, cells in zip(names, flags, strict=True) if cells[i].strip() == "1") for i in range(len(table))
    ]
    years = [date[-4:] for date in table.column("date")]
    columns = {"item": table.column("item"), "title": table.column("title"), "year": years, "genres": movie_genres}
    return replace(table, columns=columns)


def _nonempty_lines(path: Path) -> list[str]:
    return [line for line in tables.read_lines(path) if line.strip()]


def _movielens_1m(folder: Path) -> RatingTables | None:
    """Read ratings.dat, users.dat and movies.dat, with :: as the separator."""
    rating_file, user_file, movie_file = (_find_file(folder, f"{name}.dat") for name in ("ratings", "users", "movies"))
    if rating_file is None or movie_file is None:
        return None
    user_columns = ("user", "gender", "age", "occupation", "zip")
    users = None if user_file is None else _without(tables.read(user_file, user_columns), "zip")
    items = _with_years(tables.read(movie_file, ("item", "title", "genres")))
    return RatingTables((tables.read(rating_file, COLUMN_ROLES),), users, items, Columns(), FIVE_STAR_SCALE)


def _movielens_csv(folder: Path) -> RatingTables | None:
    """Read ratings.csv and movies.csv of the later datasets."""
    rating_file, movie_file = _find_file(folder, "ratings.csv"), _find_file(folder, "movies.csv")
    if rating_file is None or movie_file is None:
        return None
    ratings, movies = tables.read(rating_file), tables.read(movie_file)
    if "movieId" not in ratings.columns or "movieId" not in movies.columns:
        return None
    names = {"userId": "user", "movieId": "item", "timestamp": "time"}
    items = _with_years(rename_columns(movies, names, ids=("item",)))
    ratings = rename_columns(ratings, names, ids=("user", "item"))
    return RatingTables((ratings,), None, items, Columns(), HALF_STAR_SCALE)


def _custom_tables(folder: Path, columns: Columns) -> RatingTables:
    """Read ratings.csv (or interactions, clicks, parts, or a file per split) with users.csv and items.csv."""
    profiles = {role: _table_files(folder, stems)[:1] for role, stems in PROFILE_STEMS.items()}
    split_files = {split: _table_files(folder, (split,))[:1] for split in ("train", "valid", "test")}
    splits = tuple(split for split, files in split_files.items() if files)
    rating_files = _table_files(folder, RATING_STEMS) or _parts(folder, RATING_STEMS)
    if rating_files:
        splits = ()
    elif splits:
        rating_files = [split_files[split][0] for split in splits]
    else:
        check_not_nested(folder)
        rating_files = _unnamed_ratings(folder, columns)
    read_table = partial(tables.read, names=partial(positional_names, columns))
    ratings = tuple(read_table(path) for path in rating_files)
    if not splits:
        _check_same_columns(folder, ratings)
    users, items = (tables.read(files[0]) if files else None for files in profiles.values())
    return RatingTables(ratings, users, items, columns, splits=splits)


def _table_files(folder: Path, stems: Sequence[str]) -> list[Path]:
    """Return the tables with one of the stems, compressed or not."""
    paths = (_find_file(folder, f"{stem}{suffix}") for stem in stems for suffix in tables.SUFFIXES)
    return [path for path in paths if path is not None]


def _parts(folder: Path, stems: Sequence[str]) -> list[Path]:
    """Return the tables whose names start with one of the stems: ratings_1.csv, ratings-2020.csv."""
    pattern = re.compile(rf"(?:{'|'.join(stems)})[\W_\d]", re.IGNORECASE)
    return [file for file in _tables_in(folder) if pattern.match(file.name) and not _is_profile(file)]


def _unnamed_ratings(folder: Path, columns: Columns) -> list[Path]:
    """Return the tables of other names, if all have a column of users and one of items."""
    files = [file for file in _tables_in(folder) if not _is_profile(file)]
    roles = {role: columns.requested[role] for role in ("user", "item")}
    if not files or not all(tables.has_columns_for(file, roles) for file in files):
        raise DataError(
            f"{folder}: no ratings; expected ratings.csv (or .tsv, .parquet, …), or train.csv and test.csv, with "
            "users.csv and items.csv for profiles"
        )
    return files


def _tables_in(folder: Path) -> list[Path]:
    return [file for file in visible_files(folder) if strip_compression(file).suffix.lower() in JOINED_SUFFIXES]


def _is_profile(file: Path) -> bool:
    return any(strip_compression(file).stem in stems for stems in PROFILE_STEMS.values())


def _check_same_columns(folder: Path, ratings: Sequence[Table]) -> None:
    """Raise a DataError if tables of ratings that would be joined have different columns."""
    if len({tuple(sorted(table.columns)) for table in ratings}) > 1:
        first = "; ".join(f"{table.path.name}: {', '.join(list(table.columns)[:6])}" for table in ratings[:4])
        raise DataError(
            f"{folder}: {len(ratings)} tables of ratings with different columns ({first}); give the path of one, or "
            "move the others to another folder"
        )


def _rename_columns(source: RatingTables) -> RatingTables:
    """Rename the columns of all tables to their configured names."""
    columns = source.columns
    return source._replace(
        ratings=tuple(tables.rename_rating_columns(table, columns) for table in source.ratings),
        users=None if source.users is None else tables.rename_id_column(source.users, "user", columns.user),
        items=None if source.items is None else tables.rename_id_column(source.items, "item", columns.item),
    )


def _without(table: Table, *names: str) -> Table:
    return replace(table, columns={name: cells for name, cells in table.columns.items() if name not in names})


def _with_years(table: Table) -> Table:
    """Add a column with the year at the end of the titles: "Toy Story (1995)"."""
    years = [match[1] if (match := YEAR.search(title)) else "" for title in table.column("title")]
    return replace(table, columns={**table.columns, "year": years})


def profile_columns(table: Table | None, leave_out: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of a table that may be part of a profile, without the unnamed row index of pandas."""
    columns = {} if table is None else table.columns
    return {
        name: cells for name, cells in columns.items() if name not in leave_out and not UNNAMED_COLUMN.fullmatch(name)
    }
