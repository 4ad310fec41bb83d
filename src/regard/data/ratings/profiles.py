"""Profiles: columns of any kind (number, category, several categories, text) as one vector of numbers each.

A field is a column and what was seen of it in the training data. Every field ends with a feature that is 1 where its
value is not known, so that a profile may be told in part.
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
MAX_VALUES = 200  # values of a field that are told apart, the most frequent
NUM_BINS = 8  # parts of a number's range, equally full: a taste need not grow with age
MIN_TEXT_WORDS = 3  # words on average that make a column one of texts
WORD_PATTERN = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Field:
    """A column of a profile: its values, most frequent first, or for a number the edges of its parts."""

    name: str
    kind: FieldKind
    values: tuple[str, ...] = ()
    mean: float = 0.0
    spread: float = 1.0
    edges: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Features of this field, the one for "not known" included."""
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
        """The number, or the places of the values that are known; None where there is none."""
        if self.kind == "number":
            number = parse_number(cell)
            return None if number is None else [number]
        return [self._places[value] for value in split_cell(cell, self.kind) if value in self._places] or None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    def unknown_value_message(self, cell: str) -> str | None:
        """What is wrong with a value that somebody gives, in words; None where it is known."""
        if self._parts(cell) is not None:
            return None
        if self.kind == "number":
            return f"{self.name}={cell!r} is no number, so it counts as not told"
        return f"{self.name}={cell!r} was never seen, so it counts as not told; {did_you_mean(cell, self.values[:60])}"


def parse_number(cell: str) -> float | None:
    """A cell as a finite number; None where it is none."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def split_cell(cell: str, kind: FieldKind) -> list[str]:
    """The values in a cell, each once."""
    if kind == "text":
        found = [word.lower() for word in WORD_PATTERN.findall(cell)]
    elif kind == "several":
        found = [part.strip() for part in cell.split("|")]
    else:
        found = [cell.strip()]
    return list(dict.fromkeys(value for value in found if value))


def fit(name: str, cells: Sequence[str], kind: FieldKind | None = None) -> Field:
    """A column of the training data -> the field; its kind is found out unless it is given."""
    kind = guess_kind(cells) if kind is None else kind
    if kind == "number":
        told = [n for n in map(parse_number, cells) if n is not None]
        other = next((cell for cell in cells if cell.strip()), None)
        if not told and other is not None:
            raise ConfigError(
                f"profile: {name}:number, but {other!r} … are no numbers; say {name}:category or {name}:text"
            )
        numbers = np.array(told or [0.0])
        edges = np.unique(np.quantile(numbers, np.linspace(0, 1, NUM_BINS + 1)[1:-1]))
        return Field(name, kind, (), float(numbers.mean()), float(numbers.std()) or 1.0, tuple(map(float, edges)))
    counts = Counter(value for cell in cells for value in split_cell(cell, kind))
    least = 2 if kind == "text" else 1
    frequent = sorted((value for value in counts if counts[value] >= least), key=lambda value: (-counts[value], value))
    return Field(name, kind, tuple(frequent[:MAX_VALUES]))


def guess_kind(cells: Sequence[str]) -> FieldKind:
    """What kind of values a column has."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    if filled and all(parse_number(cell) is not None for cell in filled):
        return "number"
    if any("|" in cell for cell in filled):
        return "several"
    words = sum(len(WORD_PATTERN.findall(cell)) for cell in filled) / max(1, len(filled))
    return "text" if words >= MIN_TEXT_WORDS and len(set(filled)) > len(filled) // 2 else "category"


def select_columns(
    settings: Sequence[str], columns: Mapping[str, Sequence[str]], where: str
) -> dict[str, FieldKind | None]:
    """Settings such as "age" or "age:number" -> columns and their kinds; none given: every column."""
    found: dict[str, FieldKind | None] = {}
    for setting in settings:
        name, _, told = setting.partition(":")
        kind = next((kind for kind in FIELD_KINDS if kind == told), None)
        if name not in columns:
            raise ConfigError(f"{where}: no column {name!r} for a profile; {did_you_mean(name, columns)}")
        if told and kind is None:
            raise ConfigError(f"{where}: {setting!r}: no kind {told!r} of a column; {did_you_mean(told, FIELD_KINDS)}")
        found[name] = kind
    return found or dict.fromkeys(columns)


def encode(fields: Sequence[Field], rows: Sequence[Mapping[str, str]]) -> Array:
    """Rows of cells by name -> (n d) features of all fields, side by side; what a row does not have is not known."""
    width = sum(field.width for field in fields)
    encoded = [
        np.concatenate([f.encode(row.get(f.name, "")) for f in fields] or [np.zeros(0, dtype=np.float32)])
        for row in rows
    ]
    return np.array(encoded, dtype=np.float32).reshape(len(rows), width)
