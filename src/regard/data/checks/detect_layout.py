"""Which layout a path holds (pairs, documents, tagged words, images, captions, ratings) and the check that knows it."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from regard.core import config as configs
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.data import examples
from regard.data.captions import files as captions_files
from regard.data.checks import captions, pairs, ratings, tagged
from regard.data.checks import documents as checks_documents
from regard.data.checks import images as check_images
from regard.data.checks import pairs as check_pairs
from regard.data.checks.findings import Finding
from regard.data.files import archives, tables, text_files
from regard.data.files.text_files import read_lines
from regard.data.images.loader import holds_images
from regard.data.text import document_files, pair_files, tag_schemes
from regard.data.text.languages import script_of
from regard.data.text.pair_files import DEFAULT_LANGUAGES, Languages

Layout = Literal["pairs", "documents", "tagged", "images", "captions", "ratings"]
LAYOUTS = get_args(Layout)
TAGGED_SUFFIXES = (".conll", ".iob", ".bio", ".ner")
LAYOUT_DESCRIPTIONS = {
    "pairs": "sentence pairs",
    "documents": "documents with labels",
    "tagged": "tagged words",
    "images": "images",
    "captions": "images with captions",
    "ratings": "ratings of items by users",
}
TASKS = {
    "pairs": "translation",
    "documents": "classification",
    "tagged": "tagging",
    "images": "image_classification",
    "captions": "captioning",
    "ratings": "recommendation",
}
LAYOUT_DETECTORS: tuple[tuple[Layout, Callable[[Path], bool]], ...] = (  # what is seen at once, in this order
    ("captions", captions_files.has_captions),
    ("images", holds_images),
    ("documents", archives.is_archive),
    ("ratings", ratings.has_ratings),
)
SNIFF_LINES = 400  # lines
MIN_TEXT_CHARS = 15  # characters on average that make a column one of texts; a table with two of them holds pairs
MIN_LABEL_REPEATS = 10  # a column is one of labels if each of its values stands in so many lines on average


@dataclass(frozen=True)
class PairOptions:
    """What can be said of sentence pairs."""

    source: str = DEFAULT_LANGUAGES.source
    target: str = DEFAULT_LANGUAGES.target
    columns: tuple[str, ...] = ()
    header: bool | None = None


def check(path: Path, layout: str = "auto", options: Mapping[str, Any] | None = None) -> list[Finding]:
    """A file or folder -> what is wrong with it, by file and line; the layout is found out unless it is given.

    `told` are settings of [data], as for training: source, target, columns, header; label, text, header, separator.
    """
    if layout != "auto" and layout not in LAYOUTS:
        raise ConfigError(f"no layout {layout!r}; {did_you_mean(layout, ['auto', *LAYOUTS])}")
    chosen = detect_layout(path, options) if layout == "auto" else layout
    if chosen == "ratings":
        return ratings.check(path, options)
    if chosen == "images":
        return check_images.check(path)
    if chosen == "captions":
        return captions.check(path)
    if chosen == "tagged":
        return tagged.check(path)
    if chosen == "documents":
        return checks_documents.check(
            path, configs.from_dict(document_files.Layout, dict(options), "data") if options else None
        )
    return check_pairs.check(path, _languages(options) if options else None)


def _languages(told: Mapping[str, Any]) -> Languages:
    return Languages(**dataclasses.asdict(configs.from_dict(PairOptions, dict(told), "data")))


def describe_data(path: Path, layout: str = "auto", options: Mapping[str, Any] | None = None) -> list[str]:
    """What a path holds, how its files are written where that is not plain UTF-8, and the first example."""
    chosen = detect_layout(path, options) if layout == "auto" else layout
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    said = [f"{path}: {LAYOUT_DESCRIPTIONS[chosen]}"]
    for file in () if chosen in ("images", "captions", "ratings") else files:
        with suppress(DataError):  # the check says what is wrong
            said += text_files.encoding_remarks([file])
    if chosen == "pairs":
        first = check_pairs.first_pair(path, _languages(options) if options else None)
        said += [f"first pair: {' / '.join(' '.join(text.split()) for text in first)}"] if first else []
    return [*said, *ratings.describe_ratings(path, options)] if chosen == "ratings" else said


def train_command(path: Path, layout: str = "auto", options: Mapping[str, Any] | None = None) -> str:
    """How to train on a path, with what was told, or else with what the check found out and training has to be told."""
    chosen = detect_layout(path, options) if layout == "auto" else layout
    settings = {"path": str(path), **(options or _found_out(path, chosen))}
    words = [shlex.quote(f"data.{name}={_written(value)}") for name, value in settings.items()]
    return " ".join([f"regard train {TASKS[chosen]}", *words])


def _found_out(path: Path, chosen: str) -> dict[str, str]:
    """Settings that are not as they are where nothing is said: the languages of pairs, the columns of documents."""
    if chosen == "pairs":
        languages = pairs.detect_languages(path)
        return {} if languages == DEFAULT_LANGUAGES else {"source": languages.source, "target": languages.target}
    found = checks_documents.guess_layout(path) if chosen == "documents" else document_files.Layout()
    return {} if found == document_files.Layout() else {"label": found.label, "text": found.text}


def _written(value: object) -> str:
    """A setting as it is given on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def detect_layout(path: Path, options: Mapping[str, Any] | None = None) -> Layout:
    """What a file or folder holds, by what is told of it or by its records; pairs where nothing else is seen."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if {"user", "item"} & set(options or ()):
        return "ratings"
    for layout, holds in LAYOUT_DETECTORS:
        if holds(path):
            return layout
    if path.is_file():
        return _of_file(path)
    splits = examples.files_by_split(path, (*TAGGED_SUFFIXES, ".tsv", ".csv", ".jsonl", ".txt"))
    tables = sorted(
        file
        for file in path.iterdir()
        if examples.strip_compression(file).suffix in (".tsv", ".csv", ".jsonl", *TAGGED_SUFFIXES)
    )
    for file in [*splits.values(), *tables][:1]:
        return "ratings" if ratings.has_ratings(file) else _of_file(file)
    nested = any("/" in name for name in archives.list_text_files(path))
    return "documents" if nested or any(archives.is_archive(file) for file in path.iterdir()) else "pairs"


def _of_file(path: Path) -> Layout:
    kind = examples.strip_compression(path).suffix
    if kind in TAGGED_SUFFIXES:
        return "tagged"
    top = list(islice(read_lines(path), SNIFF_LINES))
    if kind == ".jsonl":
        return _of_record(top[0])
    if top[0].startswith(("## ", "; ", ";")) or _are_tags(top):
        return "tagged"
    if kind not in (".tsv", ".csv", ".txt"):
        return "pairs"
    table = [record.cells for record in islice(tables.read_records(path), SNIFF_LINES)]
    if not table or pair_files.guess_languages(table[0]):
        return "pairs"
    return "documents" if _has_labels(table) or (kind == ".csv" and len(_scripts(table[1:])) < 2) else "pairs"


def _scripts(table: Sequence[list[str]]) -> set[str]:
    """The scripts that the columns of a table are written in."""
    columns = zip(*(record for record in table if len(record) == len(table[0])), strict=True)
    return {script for column in columns if (script := script_of(" ".join(column))) is not None}


def _of_record(line: str) -> Layout:
    try:
        record = json.loads(line)
    except ValueError:
        return "pairs"  # whose check says what is wrong
    return "documents" if isinstance(record, dict) and set(record) & set(document_files.LABEL_COLUMNS[:5]) else "pairs"


def _are_tags(top: Sequence[str]) -> bool:
    """Whether the last column of every line that is not blank is a tag."""
    cells = [line.split("\t") if "\t" in line else line.split() for line in top if line.strip()]
    if not any(not line.strip() for line in top) or any(len(each) < 2 for each in cells):
        return False
    try:
        return bool([tag_schemes.parse(each[-1].strip()) for each in cells])
    except DataError:
        return False


def _has_labels(table: Sequence[list[str]]) -> bool:
    """Whether a table has a column of labels: by its name, or because few values stand in many lines."""
    named = {cell.strip().lower() for cell in table[0]}
    if named & set(document_files.LABEL_COLUMNS[:-1]) and len(table[0]) > 1:
        return True
    columns = list(zip(*(record for record in table if len(record) == len(table[0])), strict=True))
    texts = [
        column for column in columns if sum(map(len, column)) >= MIN_TEXT_CHARS * len(column) and _are_different(column)
    ]
    few = [column for column in columns if 1 < len(set(column)) <= len(column) // MIN_LABEL_REPEATS]
    return bool(few) and len(texts) < 2


def _are_different(column: Sequence[str]) -> bool:
    return len(set(column)) > len(column) // 2
