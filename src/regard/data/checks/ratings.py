"""Looks tables of ratings over before they are trained on: they are read as training reads them, and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.core import config as configs
from regard.core.errors import ConfigError, DataError, pluralize
from regard.data.checks.findings import Finding, read_error_finding
from regard.data.examples import strip_compression
from regard.data.ratings import dataset, rating_files, splits, tables
from regard.data.ratings import tables as ratings
from regard.data.ratings.dataset import DatasetOptions, RatingsCollection
from regard.data.ratings.profiles import parse_number
from regard.data.ratings.tables import SEPARATORS, SUFFIXES, Columns, parse_timestamp

RATING_FILE_STEMS = ("ratings", "interactions", "clicks")  # names of the file of ratings in a folder
MIN_TEXT_CHARS = 15  # characters on average that make a column one of texts
SNIFF_RECORDS = 400  # records


def check(path: Path, options: Mapping[str, Any] | None = None) -> list[Finding]:
    """A table of ratings, or a folder of such -> what is wrong with it, and what is mended when it is read."""
    try:
        data = _read(path, options or {})
    except ConfigError as wrong:
        return [Finding("error", "columns", path, 0, str(wrong))]
    except DataError as wrong:
        return [_located(wrong, path)]
    return [Finding("warning", "mended", path, 0, note.removeprefix(f"{path} ")) for note in data.remarks]


def describe_ratings(path: Path, options: Mapping[str, Any] | None = None) -> list[str]:
    """How many ratings there are, of whom and of what; nothing where they cannot be read."""
    with suppress(DataError, ConfigError):
        data = _read(path, options or {})
        sizes = f"{pluralize(len(data.users.ids), 'user')} and {pluralize(len(data.items.ids), 'item')}"
        fields = [f"{field.name} ({field.kind})" for listed in (data.users, data.items) for field in listed.fields]
        profiles = f"; profiles: {', '.join(fields)}" if fields else ""
        return [f"{pluralize(len(data.events.users), 'rating')} of {sizes}{profiles}"]
    return []


def _read(path: Path, told: Mapping[str, Any]) -> RatingsCollection:
    named = {name for name in told if name in Columns.__dataclass_fields__}
    columns = configs.from_dict(Columns, {name: told[name] for name in named}, "data")
    wanted = configs.from_dict(DatasetOptions, {name: told[name] for name in told if name not in named}, "data")
    data = dataset.build_collection(rating_files.find_tables(path, columns), wanted)
    splits.check_has_validation(data.split_ids, wanted.split)
    return data


def _located(wrong: DataError, path: Path) -> Finding:
    """An error as a finding of the file that it names, at its line."""
    name, _, rest = str(wrong).partition(": ")
    file = Path(name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name)
    return read_error_finding(wrong, file) if rest and file.exists() else read_error_finding(wrong, path)


def has_ratings(path: Path) -> bool:
    """Whether a file is a table of ratings by its first records, or a folder has such a file by its name."""
    if path.is_dir():
        names = {strip_compression(file).name for file in path.iterdir() if file.is_file()}
        own = {f"{stem}{kind}" for stem in RATING_FILE_STEMS for kind in SUFFIXES}
        return "u.item" in names or {"ratings.dat", "movies.dat"} <= names or bool(names & own)
    kind = strip_compression(path).suffix.lower()
    if kind in (".parquet", ".dat", ".data"):
        return True
    return kind in SEPARATORS and _is_table_of_ratings(path)


def _is_table_of_ratings(path: Path) -> bool:
    """A header that names users and items beside no text; or numbers alone; or ids, numbers and times, and no text."""
    try:
        found = ratings.read_head(path, SNIFF_RECORDS)
    except (DataError, UnicodeError):
        return False
    whole = [cells for cells in found if len(cells) == len(found[0])]
    columns = list(zip(*whole[1:], strict=True))
    times = [parse_timestamp(column[0]) is not None and tables.are_timestamps(column) for column in columns]
    texts = [_is_text(column) for column, time in zip(columns, times, strict=True) if not time]
    if any(texts):
        return False
    if all(tables.has_column_for(found[0], side) for side in ("user", "item")):
        return True
    numbers = all(parse_number(cell) is not None for cells in whole for cell in cells)
    return len(columns) > 2 and len(whole) == len(found) and (numbers or any(times))


def _is_text(column: Sequence[str]) -> bool:
    """Whether cells are sentences: long, or of several words each that hardly repeat."""
    return sum(map(len, column)) >= MIN_TEXT_CHARS * len(column) and len(set(column)) > len(column) // 2
