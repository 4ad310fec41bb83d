"""What a check of data finds: something wrong or odd, in which file, on which line."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

from regard.core.errors import DataError
from regard.data import examples

MIN_DISTINCT_TEXTS = 3  # different texts that are enough to be split


class Finding(NamedTuple):
    """Something wrong or odd; line 0 is the file as a whole."""

    level: Literal["error", "warning"]
    kind: str  # encoding, unreadable, columns, misaligned, empty, splits, decomposed, repeated, long or ratio
    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.level}: {self.text}"


class DistinctTexts:
    """How many different texts there are for training, counted as far as it matters; and whether they can be split."""

    def __init__(self, splits: Collection[str]) -> None:
        self.splits = splits
        self.texts: set[str] = set()

    def add(self, text: str, split: str) -> None:
        """One more text of a split."""
        if split == "train" and len(self.texts) < MIN_DISTINCT_TEXTS:
            self.texts.add(text)

    def findings(self, where: Path) -> list[Finding]:
        """What training would say of the splits."""
        try:
            few = examples.too_few_error(len(self.texts), examples.missing_splits(self.splits))
        except DataError as wrong:
            few = str(wrong)
        return [Finding("error", "splits", where, 0, few)] if few else []


def read_error_finding(error: DataError, file: Path) -> Finding:
    """An error of reading as a finding, at the line that it names."""
    text = str(error).removeprefix(f"{file}:")
    line, _, rest = text.partition(": ")
    return Finding(
        "error", "unreadable", file, int(line) if line.isdigit() else 0, rest if line.isdigit() else text.strip()
    )
