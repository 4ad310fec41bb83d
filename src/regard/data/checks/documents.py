"""Looks documents with labels over before they are trained on: what is wrong, in which file, on which line."""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import ConfigError, DataError
from regard.data import examples
from regard.data.checks.findings import DistinctTexts, Finding
from regard.data.examples import Examples
from regard.data.files import archives, tables
from regard.data.text import document_files
from regard.data.text.document_files import Document, Layout

MIN_LABEL_SIMILARITY = 0.8  # how alike two labels must be for one to be a typing mistake
TYPO_RATIO = 50  # a label this many times as rare as one that is like it is taken for a typing mistake
MAX_CLASS_RATIO = 10  # classes are unbalanced if one is this many times as frequent as another


class FirstOccurrence(NamedTuple):
    """A text that was seen: in which split, where, and with which labels."""

    split: str
    location: str
    labels: tuple[str, ...]


def check(path: Path, layout: Layout | None = None) -> list[Finding]:
    """Documents in a table, folder or archive -> what is wrong, by file and line; a layout not given is guessed."""
    findings: list[Finding] = []
    layout = layout or guess_layout(path)
    splits = document_files.read(path, layout)
    seen: dict[str, FirstOccurrence] = {}
    counts: dict[str, Counter[str]] = {}
    first: dict[str, dict[str, str]] = {}  # split -> label -> where it stands first
    different = DistinctTexts(splits)
    for split in sorted(splits, key=lambda name: name != "train"):
        counts[split], first[split] = Counter(), {}
        for document in _readable(splits[split], findings):
            findings += _alone(document)
            different.add(document.text, split)
            findings += _again(document, split, seen)
            counts[split].update(document.labels)
            for label in document.labels:
                first[split].setdefault(label, document.place)
        findings += _typos(counts[split], first[split])
        findings += _balance(counts[split], splits[split].where)
    if all(finding.level == "warning" for finding in findings):
        findings += different.findings(path)
    for split in counts:
        findings += _unseen(first[split], counts.get("train", Counter()), split)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def guess_layout(path: Path) -> Layout:
    """The columns of label and text in a table (of a folder, the first), by their names or by what they hold."""
    if path.is_dir():
        found = list(examples.files_by_split(path, tables.SUFFIXES).values())
        found += sorted(file for file in path.iterdir() if examples.strip_compression(file).suffix in tables.SUFFIXES)
        if not found:
            return Layout()
        path = found[0]
    if archives.is_archive(path) or examples.strip_compression(path).suffix == ".jsonl":
        return Layout()
    records = [record.cells for record in islice(tables.read_records(path), document_files.SNIFF_RECORDS)]
    try:
        document_files.find_columns(records[0], records[1:], Layout(), path)
        return Layout()
    except ConfigError:
        held = document_files.guess_columns(records)
    if held is None:
        raise ConfigError(f"{path}: one column; a table of documents has a label and a text, parted by tabs or commas")
    return Layout(str(held[0] + 1), str(held[1] + 1))


def _readable(split: Examples[Document], findings: list[Finding]) -> Iterator[Document]:
    """The documents of a split up to the first that cannot be read, which is a finding."""
    try:
        yield from split
    except DataError as wrong:
        place, _, text = str(wrong).partition(": ")
        findings.append(Finding("error", "unreadable", *_place(place), text))


def _place(place: str) -> tuple[Path, int]:
    """`file:line` -> both; line 0 where there is none."""
    file, _, line = place.rpartition(":")
    return (Path(file), int(line)) if file and line.isdigit() else (Path(place), 0)


def _alone(document: Document) -> Iterator[Finding]:
    file, line = _place(document.place)
    if not document.text.strip():
        yield Finding("warning", "empty", file, line, "the document is empty; it is left out of training")
    if not unicodedata.is_normalized("NFC", document.text):
        yield Finding("warning", "decomposed", file, line, "decomposed characters (not NFC); it is composed when read")


def _again(document: Document, split: str, seen: dict[str, FirstOccurrence]) -> Iterator[Finding]:
    """The same document once more: in another split, or with other labels."""
    text = " ".join(unicodedata.normalize("NFC", document.text).split())
    if not text:
        return
    before = seen.setdefault(text, FirstOccurrence(split, document.place, document.labels))
    file, line = _place(document.place)
    if before.split != split:
        yield Finding("warning", "repeated", file, line, f"the same document is in {before.location} ({before.split})")
    elif set(before.labels) != set(document.labels):
        other = ", ".join(before.labels) or "no label"
        yield Finding(
            "warning", "contradicted", file, line, f"the same document is labelled {other} in {before.location}"
        )


def _typos(counts: Counter[str], first: dict[str, str]) -> Iterator[Finding]:
    """Labels that differ from a far more frequent one by a letter, by case or by spaces."""
    for label, count in counts.items():
        frequent = [other for other in counts if counts[other] >= max(2, TYPO_RATIO * count) and other != label]
        meant = similar_label(label, frequent)
        if meant is not None:
            text = f"label {label!r} ({count} times); did you mean {meant!r} ({counts[meant]} times)?"
            yield Finding("warning", "label", *_place(first[label]), text)


def similar_label(name: str, others: Iterable[str]) -> str | None:
    """A name that is the same but for case, blanks or a letter."""
    folded = {other.casefold().strip(): other for other in others}
    if name.casefold().strip() in folded:
        return folded[name.casefold().strip()]
    close = (
        difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=MIN_LABEL_SIMILARITY) if len(name) > 2 else []
    )
    return folded[close[0]] if close else None


def _balance(counts: Counter[str], where: str) -> Iterator[Finding]:
    if len(counts) == 1:
        yield Finding("error", "balance", Path(where), 0, f"every document has the label {next(iter(counts))!r}")
    if not counts:
        return
    (most, large), (least, small) = counts.most_common()[0], counts.most_common()[-1]
    if large >= MAX_CLASS_RATIO * small:
        text = f"unbalanced classes: {large} times {most!r}, {small} times {least!r} ({len(counts)} classes)"
        yield Finding("warning", "balance", Path(where), 0, text)


def _unseen(first: dict[str, str], trained: Counter[str], split: str) -> Iterator[Finding]:
    for label, place in first.items():
        if trained and label not in trained:
            meant = similar_label(label, trained)
            hint = f"; did you mean {meant!r}?" if meant else ""
            yield Finding("error", "label", *_place(place), f"label {label!r} of {split} is not in training{hint}")
