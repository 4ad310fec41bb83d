"""Check of labelled documents: findings by file and line."""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import ConfigError, DataError, pluralize
from regard.data import examples
from regard.data.checks.findings import DistinctTexts, Finding, unread_remarks
from regard.data.examples import Examples
from regard.data.files import archives, tables
from regard.data.text import document_files, tag_schemes
from regard.data.text.document_files import Document, Layout

MIN_LABEL_SIMILARITY = 0.8  # minimum similarity of two labels for one to be a typing mistake
TYPO_RATIO = 50  # a label is a typing mistake if a similar label is this many times as frequent
MAX_SHOWN_CHARS = 100  # of the first document
MAX_CLASS_RATIO = 10  # classes are unbalanced if one is this many times as frequent as another


class FirstOccurrence(NamedTuple):
    """First occurrence of a text: its split, location and labels."""

    split: str
    location: str
    labels: tuple[str, ...]


def check(path: Path, layout: Layout | None = None) -> list[Finding]:
    """Documents in a table, folder or archive -> findings by file and line; the layout is guessed if not given."""
    findings: list[Finding] = []
    layout = layout or guess_layout(path)
    splits = document_files.read(path, layout)
    occurrences: dict[str, FirstOccurrence] = {}
    counts: dict[str, Counter[str]] = {}
    first: dict[str, dict[str, str]] = {}  # split -> label -> location of its first occurrence
    distinct_texts = DistinctTexts(splits)
    remarks = {remark for part in splits.values() for remark in part.remarks}
    findings += [Finding("warning", "unread", path, 0, text) for text in unread_remarks(remarks, path)]
    for split in sorted(splits, key=lambda name: name != "train"):
        counts[split], first[split] = Counter(), {}
        for document in _readable(splits[split], findings):
            findings += _text_findings(document)
            distinct_texts.add(document.text, split)
            findings += _repeats(document, split, occurrences)
            counts[split].update(document.labels)
            for label in document.labels:
                first[split].setdefault(label, document.origin)
        findings += _typos(counts[split], first[split])
        findings += _tags(counts[split], splits[split].where)
        findings += _balance(counts[split], splits[split].where)
    if all(finding.level == "warning" for finding in findings):
        findings += distinct_texts.findings(path)
    for split in counts:
        findings += _unknown_labels(first[split], counts.get("train", Counter()), split)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def describe(path: Path, layout: Layout | None = None) -> list[str]:
    """Return lines with the number of documents and files, the columns that are read, and the first document."""
    layout = layout or guess_layout(path)
    splits = document_files.read(path, layout)
    train = splits.get("train") or next(iter(splits.values()))
    first = next(iter(train), None)
    if first is None:
        return []
    text = " ".join(first.text.split())
    excerpt = text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 2]} …"
    lines = [f"first document: {excerpt} -> {', '.join(first.labels) or 'no label'}"]
    by_split = {"train": [path]} if path.is_file() else document_files.document_tables(path).files
    files = [file for part in by_split.values() for file in part]
    if files and not archives.is_archive(files[0]) and examples.strip_compression(files[0]).suffix != ".jsonl":
        head = [record.cells for record in islice(tables.read_records(files[0]), document_files.SNIFF_RECORDS)]
        label, column, header = document_files.find_columns(head[0], head[1:], layout, files[0])
        names = [head[0][i].strip() if header else str(i + 1) for i in (column, label)]
        lines.insert(0, f"columns: text {names[0]}, label {names[1]}")
    if any("joined" in remark for remark in train.remarks):
        lines.insert(0, f"{len(train.files)} files, {pluralize(sum(1 for _ in train), 'document')}")
    return lines


def guess_layout(path: Path) -> Layout:
    """Guess the columns of label and text in a table, or in the first table of a folder, by name or by content."""
    if path.is_dir():
        files = document_files.document_tables(path).files
        if not files:
            return Layout()
        path = next(iter(files.values()))[0]
    if archives.is_archive(path) or examples.strip_compression(path).suffix == ".jsonl":
        return Layout()
    head = tables.take_head(tables.read_records(path), document_files.SNIFF_RECORDS, path)
    records = [record.cells for record in head]
    try:
        document_files.find_columns(records[0], records[1:], Layout(), path)
        return Layout()
    except ConfigError:
        has_header = tables.is_likely_header(records[0], records[1:])
        columns = document_files.guess_columns(records[1:] if has_header else records)
    if columns is None:
        raise DataError(f"{path}: no record has as many cells as its first line; correct the first line")
    if has_header and not any(records[0][index].strip().isdecimal() for index in columns):
        return Layout(records[0][columns[0]].strip(), records[0][columns[1]].strip())
    return Layout(str(columns[0] + 1), str(columns[1] + 1))


def _readable(split: Examples[Document], findings: list[Finding]) -> Iterator[Document]:
    """Yield the documents of a split up to the first unreadable one, which is a finding."""
    try:
        yield from split
    except DataError as error:
        location, _, text = str(error).partition(": ")
        findings.append(Finding("error", "unreadable", *_file_and_line(location), text))


def _file_and_line(location: str) -> tuple[Path, int]:
    """`file:line` -> file and line; line 0 if there is none."""
    file, _, line = location.rpartition(":")
    return (Path(file), int(line)) if file and line.isdecimal() else (Path(location), 0)


def _text_findings(document: Document) -> Iterator[Finding]:
    file, line = _file_and_line(document.origin)
    if not document.text.strip():
        yield Finding("warning", "empty", file, line, "the document is empty; training ignores it")
    if not unicodedata.is_normalized("NFC", document.text):
        yield Finding("warning", "decomposed", file, line, "decomposed characters (not NFC); composed when read")


def _repeats(document: Document, split: str, occurrences: dict[str, FirstOccurrence]) -> Iterator[Finding]:
    """Report a document that is repeated in another split or with other labels."""
    text = " ".join(unicodedata.normalize("NFC", document.text).split())
    if not text:
        return
    first = occurrences.setdefault(text, FirstOccurrence(split, document.origin, document.labels))
    file, line = _file_and_line(document.origin)
    if first.split != split:
        yield Finding("warning", "repeated", file, line, f"the same document is in {first.location} ({first.split})")
    elif set(first.labels) != set(document.labels):
        labels_here, first_labels = (", ".join(labels) or "nothing" for labels in (document.labels, first.labels))
        text = f"labelled {labels_here} here, {first_labels} in {first.location}: the same text"
        yield Finding("warning", "contradicted", file, line, text)


def _typos(counts: Counter[str], first: dict[str, str]) -> Iterator[Finding]:
    """Report labels that differ from a far more frequent one by a character, by case or by spaces."""
    for label, count in counts.items():
        frequent = [name for name in counts if counts[name] >= max(2, TYPO_RATIO * count) and name != label]
        similar = similar_label(label, frequent)
        if similar is not None:
            text = f"label {label!r} ({count} times); did you mean {similar!r} ({counts[similar]} times)?"
            yield Finding("warning", "label", *_file_and_line(first[label]), text)


def _tags(counts: Counter[str], where: str) -> Iterator[Finding]:
    """Report labels that are tags of words (O, B-PER, I-PER): such a table is read for tagging in another form."""
    if not any(label.startswith(("B-", "B_")) for label in counts) or tag_schemes.OUTSIDE not in counts:
        return
    text = (
        "the labels are tags of words; for tagging, write a word, a tab and its tag in each line, with a blank line "
        "after each sentence, into a .conll file"
    )
    yield Finding("warning", "label", Path(where), 0, text)


def similar_label(name: str, labels: Iterable[str]) -> str | None:
    """Return a label that is equal except for case, surrounding spaces or a character, or None."""
    folded = {label.casefold().strip(): label for label in labels}
    if name.casefold().strip() in folded:
        return folded[name.casefold().strip()]
    matches = (
        difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=MIN_LABEL_SIMILARITY) if len(name) > 2 else []
    )
    return folded[matches[0]] if matches else None


def _balance(counts: Counter[str], where: str) -> Iterator[Finding]:
    if len(counts) == 1:
        yield Finding("error", "balance", Path(where), 0, f"every document has the label {next(iter(counts))!r}")
    if not counts:
        return
    (common, max_count), (rare, min_count) = counts.most_common()[0], counts.most_common()[-1]
    if max_count >= MAX_CLASS_RATIO * min_count:
        text = f"unbalanced classes: {max_count} times {common!r}, {min_count} times {rare!r} ({len(counts)} classes)"
        yield Finding("warning", "balance", Path(where), 0, text)


def _unknown_labels(first: dict[str, str], training_labels: Counter[str], split: str) -> Iterator[Finding]:
    for label, location in first.items():
        if training_labels and label not in training_labels:
            similar = similar_label(label, training_labels)
            hint = f"; did you mean {similar!r}?" if similar else ""
            text = f"label {label!r} of {split} is not in the training data{hint}"
            yield Finding("error", "label", *_file_and_line(location), text)
