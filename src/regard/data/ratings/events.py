"""Ratings as numbers: users and items counted, times read, what is doubled or out of order mended and said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.ratings.profiles import parse_number
from regard.data.ratings.rating_files import RatingTables
from regard.data.ratings.tables import Table, parse_timestamp

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Events(NamedTuple):
    """Who chose what, sorted by user, then by time; rows of the same time are in the order of the file."""

    users: IntArray  # (n) places in the list of users
    items: IntArray  # (n) places in the list of items
    ratings: FloatArray  # (n)
    times: FloatArray  # (n) seconds
    splits: IntArray  # (n) the table that a row comes from, where the data has splits of its own; else 0

    def take(self, rows: IntArray | NDArray[np.bool_]) -> Events:
        """Some of the rows."""
        users, items, ratings, times, splits = self
        return Events(users[rows], items[rows], ratings[rows], times[rows], splits[rows])


class IndexedEvents(NamedTuple):
    """Events, and what their numbers mean."""

    events: Events
    user_ids: list[str]  # ids, in order
    item_ids: list[str]
    scale: tuple[float, float]
    remarks: list[str]  # what was mended, in words


def index_events(tables: RatingTables, scale: tuple[float, float] | None = None) -> IndexedEvents:
    """Tables -> events; a rating outside the scale, or that is none, is an error that names its line."""
    columns, notes = tables.columns, _forms(tables)
    users = _ids(tables.ratings, tables.users, columns.user)
    items = _ids(tables.ratings, tables.items, columns.item)
    parts = [_events(table, tables, users, items, split) for split, table in enumerate(tables.ratings)]
    events = Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if not len(events.users):
        raise DataError(f"{tables.ratings[0].path}: there are no ratings in it")
    scale = scale or tables.scale or (float(events.ratings.min()), float(events.ratings.max()))
    _check_scale(tables.ratings, events, scale)
    if columns.time:
        notes += _out_of_order(events)
    events = events.take(np.lexsort((np.arange(len(events.users)), events.times, events.users)))
    events, doubled = _once(events)
    if doubled:
        notes.append(f"{doubled} ratings are of an item that the same user rated again; the last rating counts")
    return IndexedEvents(events, list(users), list(items), scale, notes)


def _forms(found: RatingTables) -> list[str]:
    tables = [table for table in (*found.ratings, found.users, found.items) if table is not None and table.encoding]
    return [f"{table.path} is no UTF-8 and was read as {table.encoding}" for table in tables]


def _ids(ratings: Sequence[Table], table: Table | None, column: str) -> dict[str, int]:
    """Every id that is listed or has ratings -> its number; numbers in the order of the ids, 2 before 10."""
    known: set[str] = set()
    for each in (*ratings, *([table] if table is not None else [])):
        cells = each.column(column)
        if "" in cells:
            raise DataError(
                f"{each.location(cells.index(''))}: no {column}; tell who or what it is, or leave the line out"
            )
        known |= set(cells)
    ordered = sorted(known, key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name))
    return {name: place for place, name in enumerate(ordered)}


def _events(table: Table, found: RatingTables, users: dict[str, int], items: dict[str, int], split: int) -> Events:
    columns, size = found.columns, len(table)
    ratings = _numbers(table, columns.rating) if columns.rating else np.ones(size)
    times = _numbers(table, columns.time, dates=True) if columns.time else np.arange(size, dtype=np.float64)
    who = np.array([users[name] for name in table.column(columns.user)], dtype=np.int64)
    what = np.array([items[name] for name in table.column(columns.item)], dtype=np.int64)
    return Events(who, what, ratings, times, np.full(size, split))


def _numbers(table: Table, column: str, *, dates: bool = False) -> FloatArray:
    cells = table.column(column)
    read = parse_timestamp if dates else parse_number
    found = [read(cell) for cell in cells]
    wrong = next((row for row, value in enumerate(found) if value is None), None)
    if wrong is not None:
        kind = "no number and no date; write seconds, or 2021-05-31 12:30" if dates else "no number; mend it"
        raise DataError(f"{table.location(wrong)}: {column}={cells[wrong]!r} is {kind}, or leave the line out")
    return np.array(found, dtype=np.float64)


def _check_scale(tables: Sequence[Table], events: Events, scale: tuple[float, float]) -> None:
    low, high = scale
    outside = np.flatnonzero((events.ratings < low) | (events.ratings > high))
    if not len(outside):
        return
    row, table = int(outside[0]), tables[int(events.splits[outside[0]])]
    place = table.location(row - int((events.splits < events.splits[row]).sum()))
    more = f" (and {len(outside) - 1} more)" if len(outside) > 1 else ""
    raise DataError(
        f"{place}: rating {events.ratings[row]:g}{more} is outside the scale {low:g} to {high:g}; mend it, or give "
        "data.scale=[lowest, highest]"
    )


def _out_of_order(events: Events) -> list[str]:
    """A note where a user's lines go back in time."""
    order = np.argsort(events.users, kind="stable")
    times, users = events.times[order], events.users[order]
    back = (np.diff(times) < 0) & (np.diff(users) == 0)
    return [f"times are out of order in {int(back.sum()):,} lines; they are sorted by time"] if back.any() else []


def _once(events: Events) -> tuple[Events, int]:
    """Each item once for each user, as it was last; and how many rows that leaves out."""
    key = events.users * (int(events.items.max()) + 1) + events.items
    _, last = np.unique(key[::-1], return_index=True)
    kept = np.sort(len(key) - 1 - last)
    return events.take(kept), len(key) - len(kept)
