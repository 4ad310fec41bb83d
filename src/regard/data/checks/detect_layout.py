"""Detection of the layout of a path: pairs, documents, tags, images, captions, speech, ratings, text or music."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from regard.core.errors import DataError
from regard.data import examples
from regard.data.captions import files as captions_files
from regard.data.checks import music, plain_text, ratings
from regard.data.checks import pairs as check_pairs
from regard.data.checks.images import has_labeled_images
from regard.data.files import archives, table_folders, tables
from regard.data.files.text_files import read_lines
from regard.data.images import label_tables
from regard.data.images.loader import holds_images
from regard.data.speech import layouts
from regard.data.text import document_files, pair_files, pair_groups, tag_schemes, tagged_files
from regard.data.text.languages import script_of

Layout = Literal["pairs", "documents", "tagged", "images", "captions", "speech", "ratings", "text", "music"]
LAYOUTS = get_args(Layout)


def has_captions(path: Path) -> bool:
    """Return True if a path has captions; a table of short, repeated labels has none."""
    try:
        is_labeled = label_tables.find_table(path) is not None
    except DataError:
        is_labeled = True
    return not is_labeled and captions_files.has_captions(path)


LAYOUT_DETECTORS: tuple[tuple[Layout, Callable[[Path], bool]], ...] = (  # quick tests, in this order
    ("images", has_labeled_images),
    ("captions", has_captions),
    ("speech", layouts.has_transcripts),
    ("images", holds_images),
    ("music", music.has_music),
    ("documents", archives.is_archive),
    ("ratings", ratings.has_ratings),
)
SNIFF_LINES = 400  # lines that are examined
MIN_TEXT_CHARS = 15  # average length of a text column; a table with two text columns contains pairs
MIN_LABEL_REPEATS = 10  # a label column has each of its values in this many lines on average


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
    tagged = tagged_files.split_files(path).files
    table_files = document_files.document_tables(path).files
    for files in [*table_files.values(), *tagged.values()][:1]:
        return "ratings" if ratings.has_ratings(files[0]) else _layout_of_file(files[0])
    return _layout_of_texts(path)


def _layout_of_texts(folder: Path) -> Layout:
    """Return the layout of a folder without tables: class folders, aligned files, or plain text."""
    nested = any("/" in name for name in archives.list_text_files(folder))
    if nested or any(archives.is_archive(file) for file in folder.iterdir()):
        return "documents"
    languages = check_pairs.detect_languages(folder)
    with suppress(DataError):
        pair_groups.find_groups(folder, languages[:2])
        return "pairs"
    return "text" if plain_text.is_plain_text(folder) else "pairs"


def _layout_of_file(path: Path) -> Layout:
    suffix = examples.strip_compression(path).suffix
    if suffix in table_folders.TAGGED_SUFFIXES:
        return "tagged"
    if tables.is_spreadsheet(path):
        return _layout_of_table(path)
    top = list(islice(read_lines(path), SNIFF_LINES))
    if suffix == ".jsonl":
        return _layout_of_record(top[0])
    if top[0].startswith(("## ", "; ", ";")) or _are_tags(top):
        return "tagged"
    if plain_text.is_plain_text(path):
        languages = check_pairs.detect_languages(path)
        return "pairs" if pair_groups.aligned_files(path, languages[:2]) else "text"
    return _layout_of_table(path) if suffix in (".tsv", ".csv", ".txt") else "pairs"


def _layout_of_table(path: Path) -> Layout:
    table = [record.cells for record in islice(tables.read_records(path), SNIFF_LINES)]
    if not table or pair_files.guess_languages(table[0]):
        return "pairs"
    has_commas = examples.strip_compression(path).suffix in (".csv", ".xlsx")
    return "documents" if _has_labels(table) or (has_commas and len(_scripts(table[1:])) < 2) else "pairs"


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
