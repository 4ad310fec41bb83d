"""Looks tables of ratings over before they are trained on: they are read as training reads them, and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.core import config as configs
from regard.core.errors import ConfigError, DataError, pluralize
from regard.data.checks.findings import Finding, unreadable
from regard.data.examples import plain
from regard.data.ratings import dataset, rating_files, splits, tables
from regard.data.ratings import tables as ratings
from regard.data.ratings.dataset import Collection, DatasetOptions
from regard.data.ratings.profiles import as_number
from regard.data.ratings.tables import KINDS, SEPARATORS, Columns, as_seconds

FILES = ("ratings", "interactions", "clicks")  # names of the file of ratings in a folder
LONG = 15  # characters on average that make a column one of texts
LOOKED_AT = 400  # records


def check(path: Path, told: Mapping[str, Any] | None = None) -> list[Finding]:
    """A table of ratings, or a folder of such -> what is wrong with it, and what is mended when it is read."""
    try:
        data = _read(path, told or {})
    except ConfigError as wrong:
        return [Finding("error", "columns", path, 0, str(wrong))]
    except DataError as wrong:
        return [_located(wrong, path)]
    return [Finding("warning", "mended", path, 0, note.removeprefix(f"{path} ")) for note in data.notes]


def first(path: Path, told: Mapping[str, Any] | None = None) -> list[str]:
    """How many ratings there are, of whom and of what; nothing where they cannot be read."""
    with suppress(DataError, ConfigError):
        data = _read(path, told or {})
        sizes = f"{pluralize(len(data.users.ids), 'user')} and {pluralize(len(data.items.ids), 'item')}"
        fields = [f"{field.name} ({field.kind})" for listed in (data.users, data.items) for field in listed.fields]
        profiles = f"; profiles: {', '.join(fields)}" if fields else ""
        return [f"{pluralize(len(data.events.users), 'rating')} of {sizes}{profiles}"]
    return []


def _read(path: Path, told: Mapping[str, Any]) -> Collection:
    named = {name for name in told if name in Columns.__dataclass_fields__}
    columns = configs.from_dict(Columns, {name: told[name] for name in named}, "data")
    wanted = configs.from_dict(DatasetOptions, {name: told[name] for name in told if name not in named}, "data")
    data = dataset.gather(rating_files.find(path, columns), wanted)
    splits.check_asked(data.parts, wanted.split)
    return data


def _located(wrong: DataError, path: Path) -> Finding:
    """An error as a finding of the file that it names, at its line."""
    name, _, rest = str(wrong).partition(": ")
    file = Path(name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name)
    return unreadable(wrong, file) if rest and file.exists() else unreadable(wrong, path)


def are_ratings(path: Path) -> bool:
    """Whether a file is a table of ratings by its first records, or a folder has such a file by its name."""
    if path.is_dir():
        names = {plain(file).name for file in path.iterdir() if file.is_file()}
        own = {f"{stem}{kind}" for stem in FILES for kind in KINDS}
        return "u.item" in names or {"ratings.dat", "movies.dat"} <= names or bool(names & own)
    kind = plain(path).suffix.lower()
    if kind in (".parquet", ".dat", ".data"):
        return True
    return kind in SEPARATORS and _is_table_of_ratings(path)


def _is_table_of_ratings(path: Path) -> bool:
    """A header that names users and items beside no text; or numbers alone; or ids, numbers and times, and no text."""
    try:
        found = ratings.top(path, LOOKED_AT)
    except (DataError, UnicodeError):
        return False
    whole = [cells for cells in found if len(cells) == len(found[0])]
    columns = list(zip(*whole[1:], strict=True))
    times = [as_seconds(column[0]) is not None and tables.are_times(column) for column in columns]
    texts = [_is_text(column) for column, time in zip(columns, times, strict=True) if not time]
    if any(texts):
        return False
    if all(tables.called(found[0], side) for side in ("user", "item")):
        return True
    numbers = all(as_number(cell) is not None for cells in whole for cell in cells)
    return len(columns) > 2 and len(whole) == len(found) and (numbers or any(times))


def _is_text(column: Sequence[str]) -> bool:
    """Whether cells are sentences: long, or of several words each that hardly repeat."""
    return sum(map(len, column)) >= LONG * len(column) and len(set(column)) > len(column) // 2
