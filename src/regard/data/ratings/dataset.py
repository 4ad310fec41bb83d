"""Recommendation dataset: users and items with encoded profiles, and their rating events; stored with a run."""

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
from regard.data.ratings import profiles, rating_files, splits
from regard.data.ratings.events import Events, IntArray, index_events
from regard.data.ratings.profiles import Field
from regard.data.ratings.rating_files import RatingTables
from regard.data.ratings.splits import COLD, SPLIT_IDS, TRAIN, BoolArray, Split
from regard.data.ratings.tables import Table

Array = NDArray[np.float32]
CATALOG_FILE, EVENTS_FILE = "catalogue.json", "events.safetensors"


@dataclass(frozen=True)
class EntityTable:
    """Users or items: ids, titles, and profiles as cells and as features."""

    ids: tuple[str, ...]
    titles: tuple[str, ...]
    fields: tuple[Field, ...]
    cells: Mapping[str, tuple[str, ...]]  # column -> one cell per entity; "" if unknown
    profiles: Array  # (n d)
    held_out: BoolArray  # (n) True for cold-start entities without training events

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each field."""
        return tuple(field.width for field in self.fields)

    @cached_property
    def index_by_id(self) -> dict[str, int]:
        """Id -> index."""
        return {name: index for index, name in enumerate(self.ids)}

    def profile(self, index: int) -> dict[str, str]:
        """Return the profile cells of one entity by column."""
        return {field.name: self.cells[field.name][index] for field in self.fields}


@dataclass(frozen=True)
class RatingsCollection:
    """Users, items and events of a recommendation dataset."""

    users: EntityTable
    items: EntityTable
    events: Events
    split_ids: IntArray  # (n) per event: TRAIN, VALID, TEST or COLD
    scale: tuple[float, float]
    remarks: tuple[str, ...] = ()

    @cached_property
    def user_offsets(self) -> IntArray:
        """(u + 1) index of each user's first event, and the number of events."""
        counts = np.bincount(self.events.users, minlength=len(self.users.ids))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def item_counts(self) -> IntArray:
        """(i) number of training events of each item."""
        return np.bincount(self.events.items[self.split_ids == TRAIN], minlength=len(self.items.ids)).astype(np.int64)

    @property
    def days(self) -> Array:
        """(n) days since the first event."""
        days: Array = ((self.events.times - self.events.times.min()) / 86_400).astype(np.float32)
        return days

    def fingerprint(self) -> dict[str, str]:
        """Return a checksum of each split; profiles count for train, cold-start events for test."""
        cells = [*sorted(self.users.cells.items()), *sorted(self.items.cells.items())]
        checksum_by_split = {}
        for name, split_id in SPLIT_IDS.items():
            rows = self.split_ids == split_id if name != "test" else self.split_ids >= split_id
            columns = [column[rows].tolist() for column in self.events]
            checksum_by_split[name] = checksums.hash_rows([*columns, *(cells if name == "train" else [])])
        return checksum_by_split

    def save(self, folder: Path) -> None:
        """Write the collection, so that a run can be used and evaluated without its training files."""
        entities = {"users": self.users, "items": self.items}
        table: dict[str, Any] = {name: _to_json(entity_table) for name, entity_table in entities.items()}
        table |= {"scale": self.scale, "notes": self.remarks}
        write_text(folder / CATALOG_FILE, json.dumps(table, ensure_ascii=False) + "\n")
        arrays = {**self.events._asdict(), "parts": self.split_ids}
        for name, entity_table in entities.items():
            arrays |= {f"profiles of {name}": entity_table.profiles, f"held {name}": entity_table.held_out}
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_bytes(folder / EVENTS_FILE, safetensors.numpy.save(contiguous))


def load(folder: Path) -> RatingsCollection:
    """Load the collection of a run folder."""
    try:
        table = json.loads((folder / CATALOG_FILE).read_text(encoding="utf-8"))
        arrays = safetensors.numpy.load((folder / EVENTS_FILE).read_bytes())
        users, items = (_from_json(table[name], arrays, name) for name in ("users", "items"))
        columns = Events(*(arrays[name] for name in Events._fields))
        low, high = table["scale"]
        return RatingsCollection(users, items, columns, arrays["parts"], (low, high), tuple(table["notes"]))
    except (OSError, ValueError, LookupError, TypeError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{folder}: users, items and ratings cannot be read ({error})") from None


def _to_json(entities: EntityTable) -> dict[str, Any]:
    fields = [asdict(field) for field in entities.fields]
    return {"ids": entities.ids, "titles": entities.titles, "fields": fields, "cells": dict(entities.cells)}


def _from_json(table: Any, arrays: Mapping[str, Any], name: str) -> EntityTable:
    fields = tuple(
        Field(**{**field, "values": tuple(field["values"]), "edges": tuple(field["edges"])})
        for field in table["fields"]
    )
    cells = {column: tuple(values) for column, values in table["cells"].items()}
    ids, titles = tuple(table["ids"]), tuple(table["titles"])
    return EntityTable(ids, titles, fields, cells, arrays[f"profiles of {name}"], arrays[f"held {name}"])


@dataclass(frozen=True)
class DatasetOptions:
    """Options of `build_collection`."""

    split: Split = "leave_one_out"
    scale: tuple[float, float] | None = None
    user_columns: tuple[str, ...] = ()  # profile columns; empty: all
    item_columns: tuple[str, ...] = ()
    profiles: Literal["both", "users", "items", "none"] = "both"  # whose profiles are read
    cold_users: float = 0.0  # fraction of the users that is held out for cold-start tests
    cold_items: float = 0.0
    seed: int = 0
    ordered: bool = True  # the order of a user's events matters: none is predicted from a later one
    excluded_ratings: tuple[float, float] | None = None  # drop ratings between these two values

    def __post_init__(self) -> None:
        if self.excluded_ratings is not None and not self.excluded_ratings[0] < self.excluded_ratings[1]:
            low, high = self.excluded_ratings
            raise ConfigError(f"disliked={low:g} must be below liked={high:g}; ratings between them are dropped")


def build_collection(tables: RatingTables, options: DatasetOptions) -> RatingsCollection:
    """Build a collection from tables: index and split the events, and encode the profiles.

    Training events that are later than a user's held-out events are an error, unless splits are random or the order
    of events does not matter.
    """
    indexed = index_events(tables, options.scale)
    events, columns = _drop_neutral_ratings(indexed.events, options.excluded_ratings), tables.columns
    cold_users = splits.sample_held_out(len(indexed.user_ids), options.cold_users, seed=options.seed)
    cold_items = splits.sample_held_out(len(indexed.item_ids), options.cold_items, seed=options.seed + 1)
    split_ids = splits.assign(events, options.split, names=tables.splits, seed=options.seed)
    if options.split != "random" and options.ordered:
        splits.check_no_leakage(events, split_ids, indexed.user_ids)
    split_ids = splits.hold_out(split_ids, events, users=cold_users, items=cold_items)
    if not (split_ids == TRAIN).any():
        raise DataError("no training ratings are left; hold out fewer users and items")
    user_source = _ProfileSource(
        tables.users, columns.user, "", options.user_columns, options.profiles in ("both", "users")
    )
    users = _build_entities(indexed.user_ids, user_source, cold_users)
    item_source = _ProfileSource(
        tables.items, columns.item, columns.title, options.item_columns, options.profiles in ("both", "items")
    )
    items = _build_entities(indexed.item_ids, item_source, cold_items)
    remarks = [
        *indexed.remarks,
        *_id_remarks("users", indexed.user_ids, tables.users, columns.user, events.users),
        *_id_remarks("items", indexed.item_ids, tables.items, columns.item, events.items),
        *_split_remarks(events, split_ids, options),
    ]
    return RatingsCollection(users, items, events, split_ids, indexed.scale, tuple(remarks))


def _id_remarks(noun: str, ids: Sequence[str], table: Table | None, key: str, rated: IntArray) -> list[str]:
    """Return remarks on rated ids that are missing or duplicated in the table of users or items.

    It is an error if the table has none of the rated ids.
    """
    if table is None:
        return []
    table_ids = table.column(key)
    unique_ids, rated_ids = set(table_ids), [ids[index] for index in np.unique(rated)]
    missing = [name for name in rated_ids if name not in unique_ids]
    if len(missing) == len(rated_ids):
        raise DataError(
            f"{table.path}: contains none of the {noun} that have ratings: {rated_ids[0]!r} … in the ratings, "
            f"{table_ids[0]!r} … in the table; write ids in the same way"
            if table_ids
            else f"{table.path}: the table is empty; fill it, or remove it"
        )
    remarks = (
        [f"{len(missing)} {noun} with ratings are not in {table.path} ({missing[0]!r} …): no profile"]
        if missing
        else []
    )
    duplicates = len(table_ids) - len(unique_ids)
    if duplicates:
        remarks.append(f"{duplicates} {noun} are repeated in {table.path}; the last line counts")
    return remarks


def _split_remarks(events: Events, split_ids: IntArray, options: DatasetOptions) -> list[str]:
    counts = np.bincount(events.users)
    below_three, single = int(((counts > 0) & (counts < 3)).sum()), int((counts == 1).sum())
    remarks = []
    if below_three and options.split == "leave_one_out":
        remarks.append(
            f"{below_three} users have fewer than three ratings ({single} have one): "
            "they are used for training, never for testing"
        )
    if options.split == "random" and options.ordered:
        remarks.append("split=random: training contains ratings that are later than some that are held out")
    if (split_ids == COLD).any():
        cold = int((split_ids == COLD).sum())
        remarks.append(f"{cold:,} ratings are of users and items that are held out entirely")
    return remarks


def _drop_neutral_ratings(events: Events, excluded: tuple[float, float] | None) -> Events:
    """Drop events whose rating is neither a like nor a dislike; `excluded` None drops nothing."""
    if excluded is None:
        return events
    low, high = excluded
    clear = (events.ratings <= low) | (events.ratings >= high)
    if len({bool(rating >= high) for rating in events.ratings[clear]}) < 2:
        raise DataError(f"no ratings both up to {low:g} and from {high:g} on; change data.disliked and data.liked")
    return events.take(clear)


class _ProfileSource(NamedTuple):
    """A table of users or items, and the columns to read."""

    table: Table | None
    id_column: str
    title_column: str
    profile_columns: Sequence[str]
    has_profile: bool


def _build_entities(ids: Sequence[str], source: _ProfileSource, held_out: BoolArray) -> EntityTable:
    """Build the table of all users or items that have ratings or a row in `source`, in the order of `ids`."""
    table = source.table
    columns = rating_files.profile_columns(table, (source.id_column, source.title_column)) if source.has_profile else {}
    rows = {} if table is None else {name: row for row, name in enumerate(table.column(source.id_column))}
    where = "the data" if table is None else str(table.path)
    kinds = profiles.select_columns(source.profile_columns if source.has_profile else (), columns, where)
    cells = {name: tuple(columns[name][rows[entity]] if entity in rows else "" for entity in ids) for name in kinds}
    fields = tuple(
        profiles.fit(name, [cell for cell, cold in zip(cells[name], held_out, strict=True) if not cold], kind)
        for name, kind in kinds.items()
    )
    profile_cells = [{name: cells[name][index] for name in kinds} for index in range(len(ids))]
    has_titles = table is not None and source.title_column in table.columns
    title_cells = table.column(source.title_column) if table is not None and has_titles else []
    titles = tuple(title_cells[rows[entity]] if title_cells and entity in rows else entity for entity in ids)
    return EntityTable(tuple(ids), titles, fields, cells, profiles.encode(fields, profile_cells), held_out)
