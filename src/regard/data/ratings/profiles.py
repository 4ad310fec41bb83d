"""Profile encoding: columns of any kind (number, category, several categories, text) as feature vectors.

A field is a column with its statistics on the training data. The last feature of every field is 1 if its value is
unknown, so that a profile may be incomplete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, did_you_mean

FieldKind = Literal["number", "category", "several", "text"]
FIELD_KINDS: tuple[FieldKind, ...] = ("number", "category", "several", "text")
Array = NDArray[np.float32]
MAX_VALUES = 200  # most frequent values of a field that have a feature
NUM_BINS = 8  # quantile bins of a number: preferences need not be monotonic in age
MIN_TEXT_WORDS = 3  # mean number of words from which a column is text
WORD_PATTERN = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Field:
    """A profile column: its values, the most frequent first, or the bin edges of a number."""

    name: str
    kind: FieldKind
    values: tuple[str, ...] = ()
    mean: float = 0.0
    spread: float = 1.0
    edges: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Number of features, including the one for unknown values."""
        return (2 + len(self.edges) if self.kind == "number" else len(self.values)) + 1

    def encode(self, cell: str) -> Array:
        """A cell -> (w) features."""
        features = np.zeros(self.width, dtype=np.float32)
        parts = self._parts(cell)
        if parts is None:
            features[-1] = 1.0
        elif self.kind == "number":
            features[0] = np.clip((parts[0] - self.mean) / self.spread, -3, 3)
            features[1 + int(np.searchsorted(self.edges, parts[0], side="right"))] = 1.0
        else:
            features[parts] = 1.0 / np.sqrt(len(parts))
        return features

    def _parts(self, cell: str) -> list[Any] | None:
        """Return the number, or the indices of the known values; None if there are none."""
        if self.kind == "number":
            value = parse_number(cell)
            return None if value is None else [value]
        return [self._indices[value] for value in split_cell(cell, self.kind) if value in self._indices] or None

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {value: index for index, value in enumerate(self.values)}

    def unknown_value_message(self, cell: str) -> str | None:
        """Return a message for a value that cannot be encoded; None if it can."""
        if self._parts(cell) is not None:
            return None
        if self.kind == "number":
            return f"{self.name}={cell!r} is not a number and is ignored"
        return (
            f"{self.name}={cell!r} is not in the training data and is ignored; {did_you_mean(cell, self.values[:60])}"
        )


def parse_number(cell: str) -> float | None:
    """Parse a cell as a finite number; None if it is not one."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def split_cell(cell: str, kind: FieldKind) -> list[str]:
    """Return the distinct values in a cell."""
    if kind == "text":
        values = [word.lower() for word in WORD_PATTERN.findall(cell)]
    elif kind == "several":
        values = [part.strip() for part in cell.split("|")]
    else:
        values = [cell.strip()]
    return list(dict.fromkeys(value for value in values if value))


def fit(name: str, cells: Sequence[str], kind: FieldKind | None = None) -> Field:
    """Fit a field to a column of the training data; the kind is detected if it is None."""
    kind = guess_kind(cells) if kind is None else kind
    if kind == "number":
        parsed = [value for value in map(parse_number, cells) if value is not None]
        example = next((cell for cell in cells if cell.strip()), None)
        if not parsed and example is not None:
            raise ConfigError(
                f"profile: {name}:number, but {example!r} … are not numbers; use {name}:category or {name}:text"
            )
        values = np.array(parsed or [0.0])
        edges = np.unique(np.quantile(values, np.linspace(0, 1, NUM_BINS + 1)[1:-1]))
        return Field(name, kind, (), float(values.mean()), float(values.std()) or 1.0, tuple(map(float, edges)))
    counts = Counter(value for cell in cells for value in split_cell(cell, kind))
    min_count = 2 if kind == "text" else 1
    frequent = [value for value in counts if counts[value] >= min_count]
    frequent.sort(key=lambda value: (-counts[value], value))
    return Field(name, kind, tuple(frequent[:MAX_VALUES]))


def guess_kind(cells: Sequence[str]) -> FieldKind:
    """Detect the kind of a column."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    if filled and all(parse_number(cell) is not None for cell in filled):
        return "number"
    if any("|" in cell for cell in filled):
        return "several"
    mean_words = sum(len(WORD_PATTERN.findall(cell)) for cell in filled) / max(1, len(filled))
    return "text" if mean_words >= MIN_TEXT_WORDS and len(set(filled)) > len(filled) // 2 else "category"


def select_columns(
    settings: Sequence[str], columns: Mapping[str, Sequence[str]], where: str
) -> dict[str, FieldKind | None]:
    """Parse settings such as "age" or "age:number" into columns and kinds; no settings select every column."""
    selected: dict[str, FieldKind | None] = {}
    for setting in settings:
        name, _, kind_name = setting.partition(":")
        kind = next((kind for kind in FIELD_KINDS if kind == kind_name), None)
        if name not in columns:
            raise ConfigError(f"{where}: no column {name!r} for a profile; {did_you_mean(name, columns)}")
        if kind_name and kind is None:
            hint = did_you_mean(kind_name, FIELD_KINDS)
            raise ConfigError(f"{where}: {setting!r}: unknown kind {kind_name!r} of a column; {hint}")
        selected[name] = kind
    return selected or dict.fromkeys(columns)


def encode(fields: Sequence[Field], rows: Sequence[Mapping[str, str]]) -> Array:
    """Rows of cells by name -> (n d) concatenated features of all fields; missing cells are unknown."""
    width = sum(field.width for field in fields)
    encoded = [
        np.concatenate([f.encode(row.get(f.name, "")) for f in fields] or [np.zeros(0, dtype=np.float32)])
        for row in rows
    ]
    return np.array(encoded, dtype=np.float32).reshape(len(rows), width)
