"""Layout of a path (pairs, documents, tags, images, captions, speech, ratings), and the check for that layout."""

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
from regard.data.checks import captions, ratings, speech, tagged
from regard.data.checks import documents as checks_documents
from regard.data.checks import images as check_images
from regard.data.checks import pairs as check_pairs
from regard.data.checks.findings import Finding
from regard.data.files import archives, tables, text_files
from regard.data.files.text_files import read_lines
from regard.data.images.loader import holds_images
from regard.data.speech import layouts
from regard.data.text import document_files, pair_files, tag_schemes
from regard.data.text.languages import script_of
from regard.data.text.pair_files import DEFAULT_LANGUAGES, Languages

Layout = Literal["pairs", "documents", "tagged", "images", "captions", "speech", "ratings"]
LAYOUTS = get_args(Layout)
TAGGED_SUFFIXES = (".conll", ".iob", ".bio", ".ner")
LAYOUT_DESCRIPTIONS = {
    "pairs": "sentence pairs",
    "documents": "documents with labels",
    "tagged": "tagged words",
    "images": "images",
    "captions": "images with captions",
    "speech": "recordings with transcripts",
    "ratings": "ratings of items by users",
}
TASKS = {
    "pairs": "translation",
    "documents": "classification",
    "tagged": "tagging",
    "images": "image_classification",
    "captions": "captioning",
    "speech": "speech_recognition",
    "ratings": "recommendation",
}
LAYOUT_DETECTORS: tuple[tuple[Layout, Callable[[Path], bool]], ...] = (  # quick tests, in this order
    ("captions", captions_files.has_captions),
    ("speech", layouts.has_transcripts),
    ("images", holds_images),
    ("documents", archives.is_archive),
    ("ratings", ratings.has_ratings),
)
CHECKS_OF_PATHS: dict[str, Callable[[Path], list[Finding]]] = {  # checks without settings
    "images": check_images.check,
    "captions": captions.check,
    "speech": speech.check,
    "tagged": tagged.check,
}
SNIFF_LINES = 400  # lines that are examined
MIN_TEXT_CHARS = 15  # average length of a text column; a table with two text columns contains pairs
MIN_LABEL_REPEATS = 10  # a label column has each of its values in this many lines on average


@dataclass(frozen=True)
class PairOptions:
    """Settings of [data] for sentence pairs."""

    source: str = DEFAULT_LANGUAGES.source
    target: str = DEFAULT_LANGUAGES.target
    columns: tuple[str, ...] = ()
    header: bool | None = None


def check(path: Path, layout: str = "auto", options: Mapping[str, Any] | None = None) -> list[Finding]:
    """File or folder -> findings by file and line; the layout is detected if it is not given.

    `options` are settings of [data], as for training: source, target, columns, header; label, text, header, separator.
    """
    if layout != "auto" and layout not in LAYOUTS:
        raise ConfigError(f"no layout {layout!r}; {did_you_mean(layout, ['auto', *LAYOUTS])}")
    chosen = detect_layout(path, options) if layout == "auto" else layout
    if chosen == "ratings":
        return ratings.check(path, options)
    if chosen in CHECKS_OF_PATHS:
        return CHECKS_OF_PATHS[chosen](path)
    if chosen == "documents":
        return checks_documents.check(
            path, configs.from_dict(document_files.Layout, dict(options), "data") if options else None
        )
    return check_pairs.check(path, _languages(options) if options else None)


def _languages(options: Mapping[str, Any]) -> Languages:
    return Languages(**dataclasses.asdict(configs.from_dict(PairOptions, dict(options), "data")))


def describe_data(path: Path, layout: str = "auto", options: Mapping[str, Any] | None = None) -> list[str]:
    """Return lines about a path: its layout, the encoding of files that are not UTF-8, and the first example."""
    chosen = detect_layout(path, options) if layout == "auto" else layout
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    lines = [f"{path}: {LAYOUT_DESCRIPTIONS[chosen]}"]
    for file in () if chosen in ("images", "captions", "speech", "ratings") else files:
        with suppress(DataError):  # the check reports the error
            lines += text_files.encoding_remarks([file])
    if chosen == "pairs":
        first = check_pairs.first_pair(path, _languages(options) if options else None)
        lines += [f"first pair: {' / '.join(' '.join(text.split()) for text in first)}"] if first else []
    return [*lines, *ratings.describe_ratings(path, options)] if chosen == "ratings" else lines


def train_command(path: Path, layout: str = "auto", options: Mapping[str, Any] | None = None) -> str:
    """Return the `regard train` command for a path, with the given settings or else the detected ones."""
    chosen = detect_layout(path, options) if layout == "auto" else layout
    settings = {"path": str(path), **(options or _detected_settings(path, chosen))}
    words = [shlex.quote(f"data.{name}={_format_value(value)}") for name, value in settings.items()]
    return " ".join([f"regard train {TASKS[chosen]}", *words])


def _detected_settings(path: Path, layout: str) -> dict[str, str]:
    """Return the detected settings that differ from the defaults: languages of pairs, columns of documents."""
    if layout == "pairs":
        languages = check_pairs.detect_languages(path)
        return {} if languages == DEFAULT_LANGUAGES else {"source": languages.source, "target": languages.target}
    columns = checks_documents.guess_layout(path) if layout == "documents" else document_files.Layout()
    return {} if columns == document_files.Layout() else {"label": columns.label, "text": columns.text}


def _format_value(value: object) -> str:
    """Format a setting for the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def detect_layout(path: Path, options: Mapping[str, Any] | None = None) -> Layout:
    """Return the layout of a file or folder by the given settings or by its records; pairs by default."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if {"user", "item"} & set(options or ()):
        return "ratings"
    for layout, holds in LAYOUT_DETECTORS:
        if holds(path):
            return layout
    if path.is_file():
        return _layout_of_file(path)
    splits = examples.files_by_split(path, (*TAGGED_SUFFIXES, ".tsv", ".csv", ".jsonl", ".txt"))
    table_files = sorted(
        file
        for file in path.iterdir()
        if examples.strip_compression(file).suffix in (".tsv", ".csv", ".jsonl", *TAGGED_SUFFIXES)
    )
    for file in [*splits.values(), *table_files][:1]:
        return "ratings" if ratings.has_ratings(file) else _layout_of_file(file)
    nested = any("/" in name for name in archives.list_text_files(path))
    return "documents" if nested or any(archives.is_archive(file) for file in path.iterdir()) else "pairs"


def _layout_of_file(path: Path) -> Layout:
    suffix = examples.strip_compression(path).suffix
    if suffix in TAGGED_SUFFIXES:
        return "tagged"
    top = list(islice(read_lines(path), SNIFF_LINES))
    if suffix == ".jsonl":
        return _layout_of_record(top[0])
    if top[0].startswith(("## ", "; ", ";")) or _are_tags(top):
        return "tagged"
    if suffix not in (".tsv", ".csv", ".txt"):
        return "pairs"
    table = [record.cells for record in islice(tables.read_records(path), SNIFF_LINES)]
    if not table or pair_files.guess_languages(table[0]):
        return "pairs"
    return "documents" if _has_labels(table) or (suffix == ".csv" and len(_scripts(table[1:])) < 2) else "pairs"


def _scripts(table: Sequence[list[str]]) -> set[str]:
    """Return the scripts of the columns of a table."""
    columns = zip(*(record for record in table if len(record) == len(table[0])), strict=True)
    return {script for column in columns if (script := script_of(" ".join(column))) is not None}


def _layout_of_record(line: str) -> Layout:
    try:
        record = json.loads(line)
    except ValueError:
        return "pairs"  # the check of pairs reports the error
    return "documents" if isinstance(record, dict) and set(record) & set(document_files.LABEL_COLUMNS[:5]) else "pairs"


def _are_tags(top: Sequence[str]) -> bool:
    """Return True if the last column of every line that is not blank is a tag."""
    rows = [line.split("\t") if "\t" in line else line.split() for line in top if line.strip()]
    if not any(not line.strip() for line in top) or any(len(cells) < 2 for cells in rows):
        return False
    try:
        return bool([tag_schemes.parse(cells[-1].strip()) for cells in rows])
    except DataError:
        return False


def _has_labels(table: Sequence[list[str]]) -> bool:
    """Return True if a table has a label column: by its name, or because its few values repeat in many lines."""
    names = {cell.strip().lower() for cell in table[0]}
    if names & set(document_files.LABEL_COLUMNS[:-1]) and len(table[0]) > 1:
        return True
    columns = list(zip(*(record for record in table if len(record) == len(table[0])), strict=True))
    text_columns = [
        column
        for column in columns
        if sum(map(len, column)) >= MIN_TEXT_CHARS * len(column) and len(set(column)) > len(column) // 2
    ]
    label_columns = [column for column in columns if 1 < len(set(column)) <= len(column) // MIN_LABEL_REPEATS]
    return bool(label_columns) and len(text_columns) < 2
