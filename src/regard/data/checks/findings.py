"""Findings of a data check: errors and warnings with file and line."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from regard.core.errors import DataError
from regard.data import examples

MAX_EQUAL_FINDINGS = 3  # findings with the same text that are reported separately
MAX_LISTED_LINES = 5  # line numbers that a merged finding lists
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


def unread_remarks(remarks: Iterable[str], path: Path) -> list[str]:
    """Return the remarks about files that are not read, without the path in front."""
    texts = (remark.removeprefix(f"{path}: ") for remark in remarks)
    return [text for text in texts if text.startswith("not read")]


def merge_equal(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings with the same text in the same file; the first stays, with the number of lines."""
    groups: dict[tuple[str, str, Path, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.level, finding.kind, finding.file, finding.text), []).append(finding)
    merged = []
    for equal in groups.values():
        lines = list(dict.fromkeys(str(finding.line) for finding in equal if finding.line))
        if len(equal) <= MAX_EQUAL_FINDINGS:
            merged += equal
        else:
            listed = ", ".join(lines[:MAX_LISTED_LINES]) + (", …" if len(lines) > MAX_LISTED_LINES else "")
            where = f"; lines {listed}" if lines else ""
            merged.append(equal[0]._replace(text=f"{equal[0].text} ({len(equal):,} times{where})"))
    return merged


def read_error_finding(error: DataError, file: Path) -> Finding:
    """Convert a read error to a finding at the line that it names."""
    text = str(error).removeprefix(f"{file}:")
    line, _, rest = text.partition(": ")
    return Finding(
        "error", "unreadable", file, int(line) if line.isdecimal() else 0, rest if line.isdecimal() else text.strip()
    )
