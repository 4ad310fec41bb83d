"""Users, items and who chose what, as a task needs them: profiles as vectors, events in order, kept with a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from regard.core import checksums
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import write_bytes, write_text
from regard.data.ratings import events as numbering
from regard.data.ratings import profiles, rating_files, splits
from regard.data.ratings.events import Events, IntArray
from regard.data.ratings.profiles import Field
from regard.data.ratings.rating_files import RatingTables
from regard.data.ratings.splits import COLD, SPLIT_IDS, TRAIN, BoolArray, Split
from regard.data.ratings.tables import Table

Array = NDArray[np.float32]
CATALOG_FILE, EVENTS_FILE = "catalogue.json", "events.safetensors"


@dataclass(frozen=True)
class EntityTable:
    """Users, or items: ids, what people call them, and their profiles as cells and as features."""

    ids: tuple[str, ...]
    titles: tuple[str, ...]
    fields: tuple[Field, ...]
    cells: Mapping[str, tuple[str, ...]]  # column -> the cell of each; "" where it is not known
    profiles: Array  # (n d)
    held_out: BoolArray  # (n) held out entirely

    @property
    def widths(self) -> tuple[int, ...]:
        """Features of each field."""
        return tuple(field.width for field in self.fields)

    @cached_property
    def index_by_id(self) -> dict[str, int]:
        """Id -> place."""
        return {name: place for place, name in enumerate(self.ids)}

    def profile(self, index: int) -> dict[str, str]:
        """The cells of one, by column."""
        return {field.name: self.cells[field.name][index] for field in self.fields}


@dataclass(frozen=True)
class RatingsCollection:
    """All of it."""

    users: EntityTable
    items: EntityTable
    events: Events
    split_ids: IntArray  # (n) of each event: TRAIN, VALID, TEST or COLD
    scale: tuple[float, float]
    remarks: tuple[str, ...] = ()

    @cached_property
    def user_offsets(self) -> IntArray:
        """(u + 1) where each user's events begin, and the end."""
        counts = np.bincount(self.events.users, minlength=len(self.users.ids))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def item_counts(self) -> IntArray:
        """(i) how often each item is in the training data."""
        return np.bincount(self.events.items[self.split_ids == TRAIN], minlength=len(self.items.ids)).astype(np.int64)

    @property
    def days(self) -> Array:
        """(n) days since the first event."""
        days: Array = ((self.events.times - self.events.times.min()) / 86_400).astype(np.float32)
        return days

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split; profiles belong to what is learnt from, what is held out entirely to testing."""
        cells = [*sorted(self.users.cells.items()), *sorted(self.items.cells.items())]
        found = {}
        for name, part in SPLIT_IDS.items():
            rows = self.split_ids == part if name != "test" else self.split_ids >= part
            columns = [column[rows].tolist() for column in self.events]
            found[name] = checksums.hash_rows([*columns, *(cells if name == "train" else [])])
        return found

    def save(self, folder: Path) -> None:
        """Write everything: a run is used, and evaluated, without the files it was trained on."""
        lists = {name: _to_json(listed) for name, listed in (("users", self.users), ("items", self.items))}
        table = {**lists, "scale": self.scale, "notes": self.remarks}
        write_text(folder / CATALOG_FILE, json.dumps(table, ensure_ascii=False) + "\n")
        arrays = {**self.events._asdict(), "parts": self.split_ids}
        for name, listed in (("users", self.users), ("items", self.items)):
            arrays |= {f"profiles of {name}": listed.profiles, f"held {name}": listed.held_out}
        kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_bytes(folder / EVENTS_FILE, safetensors.numpy.save(kept))


def load(folder: Path) -> RatingsCollection:
    """A run folder -> its collection."""
    try:
        table = json.loads((folder / CATALOG_FILE).read_text(encoding="utf-8"))
        arrays = safetensors.numpy.load((folder / EVENTS_FILE).read_bytes())
        users, items = (_from_json(table[name], arrays, name) for name in ("users", "items"))
        columns = Events(*(arrays[name] for name in Events._fields))
        low, high = table["scale"]
        return RatingsCollection(users, items, columns, arrays["parts"], (low, high), tuple(table["notes"]))
    except (OSError, ValueError, LookupError, TypeError, safetensors.SafetensorError) as wrong:
        raise CheckpointError(f"{folder}: users, items and ratings cannot be read ({wrong})") from None


def _to_json(listed: EntityTable) -> dict[str, Any]:
    fields = [asdict(field) for field in listed.fields]
    return {"ids": listed.ids, "titles": listed.titles, "fields": fields, "cells": dict(listed.cells)}


def _from_json(table: Any, arrays: Mapping[str, Any], name: str) -> EntityTable:
    fields = tuple(
        Field(**{**field, "values": tuple(field["values"]), "edges": tuple(field["edges"])})
        for field in table["fields"]
    )
    cells = {column: tuple(values) for column, values in table["cells"].items()}
    told = tuple(table["ids"]), tuple(table["titles"])
    return EntityTable(*told, fields, cells, arrays[f"profiles of {name}"], arrays[f"held {name}"])


@dataclass(frozen=True)
class DatasetOptions:
    """How a collection is made from tables."""

    split: Split = "leave_one_out"
    scale: tuple[float, float] | None = None
    user_columns: tuple[str, ...] = ()  # of the profile; none: all there are
    item_columns: tuple[str, ...] = ()
    profiles: Literal["both", "users", "items", "none"] = "both"  # whose are read
    held_users: float = 0.0  # share that is held out entirely
    held_items: float = 0.0
    seed: int = 0
    left_out: tuple[float, float] | None = None  # ratings between these are left out

    def __post_init__(self) -> None:
        if self.left_out is not None and not self.left_out[0] < self.left_out[1]:
            low, high = self.left_out
            raise ConfigError(f"disliked={low:g} must be below liked={high:g}; what lies between is left out")


def build_collection(tables: RatingTables, options: DatasetOptions) -> RatingsCollection:
    """Tables -> the collection, every event in its part; what comes from the future is refused."""
    numbered = numbering.index_events(tables, options.scale)
    events, columns = _clear(numbered.events, options.left_out), tables.columns
    held_users = splits.sample_held_out(len(numbered.user_ids), options.held_users, seed=options.seed)
    held_items = splits.sample_held_out(len(numbered.item_ids), options.held_items, seed=options.seed + 1)
    parts = splits.assign(events, options.split, names=tables.splits, seed=options.seed)
    if options.split != "random":
        splits.check_no_leakage(events, parts, numbered.user_ids)
    parts = splits.hold_out(parts, events, users=held_users, items=held_items)
    if not (parts == TRAIN).any():
        raise DataError("nothing is left to learn from; hold out fewer users and items")
    told = _Told(tables.users, columns.user, "", options.user_columns, options.profiles in ("both", "users"))
    users = _listed(numbered.user_ids, told, held_users)
    told = _Told(tables.items, columns.item, columns.title, options.item_columns, options.profiles in ("both", "items"))
    items = _listed(numbered.item_ids, told, held_items)
    known = _unmatched("users", numbered.user_ids, tables.users, columns.user, events.users)
    known += _unmatched("items", numbered.item_ids, tables.items, columns.item, events.items)
    notes = [*numbered.remarks, *known, *_notes(events, parts, options.split)]
    return RatingsCollection(users, items, events, parts, numbered.scale, tuple(notes))


def _unmatched(what: str, ids: Sequence[str], table: Table | None, key: str, rated: IntArray) -> list[str]:
    """Notes on ids of the ratings that the table of users or items has not, or has twice; none at all is an error."""
    if table is None:
        return []
    told = table.column(key)
    listed, asked = set(told), [ids[place] for place in np.unique(rated)]
    new = [name for name in asked if name not in listed]
    if len(new) == len(asked):
        raise DataError(
            f"{table.path}: none of the {what} that have ratings is in it: {asked[0]!r} … there, {told[0]!r} … here; "
            "write ids alike"
            if told
            else f"{table.path}: nothing is in it; fill it, or take it away"
        )
    notes = [f"{len(new)} {what} with ratings are not in {table.path} ({new[0]!r} …): no profile"] if new else []
    twice = len(told) - len(listed)
    return [*notes, *([f"{twice} {what} stand in {table.path} again; the last line counts"] if twice else [])]


def _notes(events: Events, parts: IntArray, split: Split) -> list[str]:
    counts = np.bincount(events.users)
    few, one = int(((counts > 0) & (counts < 3)).sum()), int((counts == 1).sum())
    notes = []
    if few and split == "leave_one_out":
        notes.append(f"{few} users have fewer than three ratings ({one} have one): they are learnt from, never asked")
    if split == "random":
        notes.append("split=random: training holds ratings that are later than some that are held out")
    if (parts == COLD).any():
        notes.append(f"{int((parts == COLD).sum()):,} ratings are of users and items that are held out entirely")
    return notes


def _clear(events: Events, left_out: tuple[float, float] | None) -> Events:
    """Events whose rating says whether the item was liked; all of them where that is not asked."""
    if left_out is None:
        return events
    kept = (events.ratings <= left_out[0]) | (events.ratings >= left_out[1])
    if len({bool(rating >= left_out[1]) for rating in events.ratings[kept]}) < 2:
        low, high = left_out
        raise DataError(f"no ratings both up to {low:g} and from {high:g} on; choose data.disliked and data.liked anew")
    return events.take(kept)


class _Told(NamedTuple):
    """A table of users or items, and what is read of it."""

    table: Table | None
    key: str  # the column of the id
    title: str  # the column of the name
    wanted: Sequence[str]  # columns of the profile
    read: bool  # whether there is to be a profile


def _listed(ids: Sequence[str], told: _Told, held: BoolArray) -> EntityTable:
    """Everyone who is listed or has ratings, in the order of their numbers."""
    table = told.table
    columns = rating_files.profile_columns(table, (told.key, told.title)) if told.read else {}
    rows = {} if table is None else {name: row for row, name in enumerate(table.column(told.key))}
    where = "the data" if table is None else str(table.path)
    kinds = profiles.select_columns(told.wanted if told.read else (), columns, where)
    cells = {name: tuple(columns[name][rows[each]] if each in rows else "" for each in ids) for name in kinds}
    fields = tuple(
        profiles.fit(name, [c for c, out in zip(cells[name], held, strict=True) if not out], kind)
        for name, kind in kinds.items()
    )
    each_told = [{name: cells[name][place] for name in kinds} for place in range(len(ids))]
    named = [] if table is None or told.title not in table.columns else table.column(told.title)
    titles = tuple(named[rows[each]] if named and each in rows else each for each in ids)
    return EntityTable(tuple(ids), titles, fields, cells, profiles.encode(fields, each_told), held)
