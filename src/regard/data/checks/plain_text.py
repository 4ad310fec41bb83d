"""Check of plain text for language models: it is read as in training."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

from regard.core.errors import DataError, pluralize
from regard.data.checks.findings import Finding, read_error_finding
from regard.data.examples import strip_compression
from regard.data.text import pair_groups, plain_text
from regard.data.text.plain_text import PlainTextSource

TEXT_SUFFIXES = (".txt", ".text", ".md")


def check(path: Path) -> list[Finding]:
    """File or folder of text -> findings: unreadable files, and text that is too short to hold a part out."""
    try:
        splits = plain_text.open_text(PlainTextSource((path,), ""))
        empty = [name for name in ("train", "valid") if not any(text.strip() for text in splits[name])]
    except DataError as error:
        return [read_error_finding(error, path)]
    text = f"no text is left for {' and '.join(empty)}; provide more text"
    return [Finding("error", "splits", path, 0, text)] if empty else []


def describe(path: Path) -> list[str]:
    """Return lines with the number of files and characters, and the beginning of the text."""
    files = text_files_in(path)
    documents = plain_text.open_text(PlainTextSource((path,), ""))
    parts = list(chain.from_iterable(documents[name] for name in documents))
    lines = [" ".join(line.split()) for part in parts[:1] for line in part.splitlines() if line.strip()]
    count = f"{pluralize(len(files), 'file')}, {pluralize(sum(map(len, parts)), 'character')}"
    return [count, *(f"first line: {line[:100]}" for line in islice(lines, 1))]


def text_files_in(path: Path) -> list[Path]:
    """Return the text files at a path: the file itself, or those in the folder and its subfolders."""
    if path.is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    return [file for file in files if strip_compression(file).suffix in TEXT_SUFFIXES]


def is_plain_text(path: Path) -> bool:
    """Return True for a text file without tabs, or a folder of such files and nothing else at its top."""
    if path.is_file():
        return strip_compression(path).suffix in TEXT_SUFFIXES and not pair_groups.has_tab(path)
    files = pair_groups.text_files_in(path)
    return bool(files) and not any(map(pair_groups.has_tab, files))
