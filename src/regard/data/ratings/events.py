"""Rating events as arrays: indexed users and items, parsed ratings and times, duplicates removed and sorted by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.files import table_folders
from regard.data.ratings.profiles import parse_number
from regard.data.ratings.rating_files import RatingTables
from regard.data.ratings.tables import Columns, Table, parse_timestamp

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Events(NamedTuple):
    """Rating events, sorted by user, then by time; rows of the same time are in the order of the file."""

    users: IntArray  # (n) user indices
    items: IntArray  # (n) item indices
    ratings: FloatArray  # (n)
    times: FloatArray  # (n) seconds
    splits: IntArray  # (n) index of the table of a row, if the data has a file per split; else 0

    def take(self, rows: IntArray | NDArray[np.bool_]) -> Events:
        """Select rows."""
        users, items, ratings, times, splits = self
        return Events(users[rows], items[rows], ratings[rows], times[rows], splits[rows])


class IndexedEvents(NamedTuple):
    """Events, and the ids of their indices."""

    events: Events
    user_ids: list[str]  # by user index
    item_ids: list[str]
    scale: tuple[float, float]
    remarks: list[str]  # on corrected input


def index_events(tables: RatingTables, scale: tuple[float, float] | None = None) -> IndexedEvents:
    """Convert tables to events; an invalid rating, or one outside the scale, is an error that names its line."""
    columns, remarks = tables.columns, [*_joined_remarks(tables), *_encoding_remarks(tables)]
    users = _index_ids(tables.ratings, tables.users, columns.user)
    items = _index_ids(tables.ratings, tables.items, columns.item)
    parts = [_parse_events(table, columns, users, items, split) for split, table in enumerate(tables.ratings)]
    events = Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if not len(events.users):
        raise DataError(f"{tables.ratings[0].path}: contains no ratings")
    scale = scale or tables.scale or (float(events.ratings.min()), float(events.ratings.max()))
    _check_scale(tables.ratings, events, scale)
    if columns.time:
        remarks += _order_remarks(events)
    events = events.take(np.lexsort((np.arange(len(events.users)), events.times, events.users)))
    events, duplicates = _drop_duplicates(events)
    if duplicates:
        remarks.append(f"{duplicates} ratings are of an item that the same user rated again; the last rating counts")
    return IndexedEvents(events, list(users), list(items), scale, remarks)


def _joined_remarks(tables: RatingTables) -> list[str]:
    """Return a remark if the ratings are in several files that are not named after splits."""
    paths = [table.path for table in tables.ratings]
    if len(paths) < 2 or tables.splits:
        return []
    return [f"{paths[0].parent}: {len(paths)} files are joined: {table_folders.list_names(paths)}"]


def _encoding_remarks(tables: RatingTables) -> list[str]:
    all_tables = (*tables.ratings, tables.users, tables.items)
    recoded = [table for table in all_tables if table is not None and table.encoding]
    return [f"{table.path} is not UTF-8 and was read as {table.encoding}" for table in recoded]


def _index_ids(ratings: Sequence[Table], table: Table | None, column: str) -> dict[str, int]:
    """Map every id of the ratings and of the table to an index, in the order of the ids: 2 before 10."""
    ids: set[str] = set()
    for source in (*ratings, *([table] if table is not None else [])):
        cells = source.column(column)
        if "" in cells:
            raise DataError(f"{source.location(cells.index(''))}: {column} is empty; fill it in, or remove the line")
        ids |= set(cells)
    ordered = sorted(ids, key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name))
    return {name: index for index, name in enumerate(ordered)}


def _parse_events(table: Table, columns: Columns, users: dict[str, int], items: dict[str, int], split: int) -> Events:
    size = len(table)
    ratings = _parse_column(table, columns.rating) if columns.rating else np.ones(size)
    times = _parse_column(table, columns.time, dates=True) if columns.time else np.arange(size, dtype=np.float64)
    user_indices = np.array([users[name] for name in table.column(columns.user)], dtype=np.int64)
    item_indices = np.array([items[name] for name in table.column(columns.item)], dtype=np.int64)
    return Events(user_indices, item_indices, ratings, times, np.full(size, split))


def _parse_column(table: Table, column: str, *, dates: bool = False) -> FloatArray:
    cells = table.column(column)
    parse = parse_timestamp if dates else parse_number
    values = [parse(cell) for cell in cells]
    invalid = next((row for row, value in enumerate(values) if value is None), None)
    if invalid is not None:
        problem = (
            "neither a number nor a date; write seconds, or 2021-05-31 12:30" if dates else "not a number; correct it"
        )
        raise DataError(f"{table.location(invalid)}: {column}={cells[invalid]!r} is {problem}, or remove the line")
    return np.array(values, dtype=np.float64)


def _check_scale(tables: Sequence[Table], events: Events, scale: tuple[float, float]) -> None:
    low, high = scale
    outside = np.flatnonzero((events.ratings < low) | (events.ratings > high))
    if not len(outside):
        return
    row, table = int(outside[0]), tables[int(events.splits[outside[0]])]
    location = table.location(row - int((events.splits < events.splits[row]).sum()))
    more = f" (and {len(outside) - 1} more)" if len(outside) > 1 else ""
    raise DataError(
        f"{location}: rating {events.ratings[row]:g}{more} is outside the scale {low:g} to {high:g}; correct it, or "
        "give data.scale=[lowest, highest]"
    )


def _order_remarks(events: Events) -> list[str]:
    """Return a remark if the lines of a user are not in order of time."""
    order = np.argsort(events.users, kind="stable")
    times, users = events.times[order], events.users[order]
    backward = (np.diff(times) < 0) & (np.diff(users) == 0)
    if not backward.any():
        return []
    return [f"times are out of order in {int(backward.sum()):,} lines; they are sorted by time"]


def _drop_duplicates(events: Events) -> tuple[Events, int]:
    """Keep the last event of each user and item; also return the number of dropped events."""
    key = events.users * (int(events.items.max()) + 1) + events.items
    _, last = np.unique(key[::-1], return_index=True)
    rows = np.sort(len(key) - 1 - last)
    return events.take(rows), len(key) - len(rows)
