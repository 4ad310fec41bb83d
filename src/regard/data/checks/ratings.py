"""Check of rating tables: they are read as in training, and problems are reported."""

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
from regard.data.ratings.dataset import DatasetOptions, RatingsCollection
from regard.data.ratings.profiles import parse_number
from regard.data.ratings.tables import SEPARATORS, SUFFIXES, Columns, parse_timestamp

RATING_FILE_STEMS = ("ratings", "interactions", "clicks")  # stems of rating files in a folder
MIN_TEXT_CHARS = 15  # average length of a text column
SNIFF_RECORDS = 400  # records that are examined


def check(path: Path, options: Mapping[str, Any] | None = None) -> list[Finding]:
    """Table of ratings, or folder of such tables -> findings, including corrections made while reading."""
    try:
        data = _read(path, options or {})
    except ConfigError as error:
        return [Finding("error", "columns", path, 0, str(error))]
    except DataError as error:
        return [_read_error_finding(error, path)]
    return [Finding("warning", "corrected", path, 0, remark.removeprefix(f"{path} ")) for remark in data.remarks]


def describe_ratings(path: Path, options: Mapping[str, Any] | None = None) -> list[str]:
    """Return a line with the numbers of ratings, users and items; no line if they cannot be read."""
    with suppress(DataError, ConfigError):
        data = _read(path, options or {})
        sizes = f"{pluralize(len(data.users.ids), 'user')} and {pluralize(len(data.items.ids), 'item')}"
        fields = [f"{field.name} ({field.kind})" for table in (data.users, data.items) for field in table.fields]
        profiles = f"; profiles: {', '.join(fields)}" if fields else ""
        return [f"{pluralize(len(data.events.users), 'rating')} of {sizes}{profiles}"]
    return []


def _read(path: Path, options: Mapping[str, Any]) -> RatingsCollection:
    column_names = {name for name in options if name in Columns.__dataclass_fields__}
    columns = configs.from_dict(Columns, {name: options[name] for name in column_names}, "data")
    remaining = {name: options[name] for name in options if name not in column_names}
    dataset_options = configs.from_dict(DatasetOptions, remaining, "data")
    data = dataset.build_collection(rating_files.find_tables(path, columns), dataset_options)
    splits.check_has_validation(data.split_ids, dataset_options.split)
    return data


def _read_error_finding(error: DataError, path: Path) -> Finding:
    """Convert an error to a finding in the file and line that it names."""
    name, _, rest = str(error).partition(": ")
    file = Path(name.rpartition(":")[0] if name.rpartition(":")[2].isdecimal() else name)
    return read_error_finding(error, file if rest and file.exists() else path)


def has_ratings(path: Path) -> bool:
    """Return True if a file has ratings by its first records, or a folder has a rating file by its name."""
    if path.is_dir():
        names = {strip_compression(file).name for file in path.iterdir() if file.is_file()}
        rating_file_names = {f"{stem}{suffix}" for stem in RATING_FILE_STEMS for suffix in SUFFIXES}
        return "u.item" in names or {"ratings.dat", "movies.dat"} <= names or bool(names & rating_file_names)
    suffix = strip_compression(path).suffix.lower()
    if suffix in (".parquet", ".dat", ".data"):
        return True
    return suffix in (*SEPARATORS, ".xlsx") and _is_rating_table(path)


def _is_rating_table(path: Path) -> bool:
    """Return True for a table without text that has a header with users and items, only numbers, or timestamps."""
    try:
        records = tables.read_head(path, SNIFF_RECORDS)
    except (DataError, UnicodeError):
        return False
    if not records:
        return False
    complete = [cells for cells in records if len(cells) == len(records[0])]
    columns = list(zip(*complete[1:], strict=True))
    are_times = [parse_timestamp(column[0]) is not None and tables.are_timestamps(column) for column in columns]
    if any(_is_text(column) for column, is_time in zip(columns, are_times, strict=True) if not is_time):
        return False
    if all(tables.has_column_for(records[0], side) for side in ("user", "item")):
        return True
    only_numbers = all(parse_number(cell) is not None for cells in complete for cell in cells)
    return len(columns) > 2 and len(complete) == len(records) and (only_numbers or any(are_times))


def _is_text(column: Sequence[str]) -> bool:
    """Return True if cells are sentences: long, and mostly distinct."""
    return sum(map(len, column)) >= MIN_TEXT_CHARS * len(column) and len(set(column)) > len(column) // 2
