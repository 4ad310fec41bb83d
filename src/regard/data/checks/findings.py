"""Findings of a data check: errors and warnings with file and line."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

from regard.core.errors import DataError
from regard.data import examples

MIN_DISTINCT_TEXTS = 3  # distinct texts that can be split into train, valid and test


class Finding(NamedTuple):
    """An error or a warning; line 0 stands for the entire file."""

    level: Literal["error", "warning"]
    kind: str  # for example encoding, unreadable, columns, misaligned, empty, splits, decomposed, repeated
    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{location}: {self.level}: {self.text}"


class DistinctTexts:
    """Counts distinct training texts up to the number needed to split them."""

    def __init__(self, splits: Collection[str]) -> None:
        self.splits = splits
        self.texts: set[str] = set()

    def add(self, text: str, split: str) -> None:
        """Count a text of a split."""
        if split == "train" and len(self.texts) < MIN_DISTINCT_TEXTS:
            self.texts.add(text)

    def findings(self, where: Path) -> list[Finding]:
        """Return the error that training would raise about the splits, if any."""
        try:
            message = examples.too_few_error(len(self.texts), examples.missing_splits(self.splits))
        except DataError as error:
            message = str(error)
        return [Finding("error", "splits", where, 0, message)] if message else []


def read_error_finding(error: DataError, file: Path) -> Finding:
    """Convert a read error to a finding at the line that it names."""
    text = str(error).removeprefix(f"{file}:")
    line, _, rest = text.partition(": ")
    return Finding(
        "error", "unreadable", file, int(line) if line.isdigit() else 0, rest if line.isdigit() else text.strip()
    )
