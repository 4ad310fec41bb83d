"""Tables of a folder: which are read for each split, and the refusal of tables that do not belong together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError, pluralize
from regard.data.examples import split_of, strip_compression
from regard.data.files import tables

TAGGED_SUFFIXES = (".conll", ".iob", ".bio", ".ner")
SPLIT_COLUMNS = ("split", "subset", "fold")  # names of a column with the split of each record
MAX_LISTED = 4  # files that a message names


class SplitFiles(NamedTuple):
    """Files of each split, in order, and remarks on files that are joined or not read."""

    files: dict[str, list[Path]]
    remarks: tuple[str, ...] = ()


def tables_by_split(folder: Path) -> SplitFiles:
    """Folder -> its tables of each split; several training tables must have the same columns."""
    return join_tables(folder, [file for file in visible_files(folder) if is_table(file)])


def join_tables(folder: Path, files: Sequence[Path]) -> SplitFiles:
    """Tables of a folder -> the tables of each split; several training tables must have the same columns."""
    splits, remarks = group_by_split(folder, files)
    check_same_columns(folder, splits.get("train", []))
    return SplitFiles(splits, remarks)


def visible_files(folder: Path) -> list[Path]:
    """Return the files of a folder in order, without hidden files and the lock files of Excel."""
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith((".", "~$")))


def check_not_nested(folder: Path) -> None:
    """Raise a DataError for a folder without files whose tables are in its subfolders."""
    if visible_files(folder):
        return
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    nested = next((file for file in files if is_table(file) or file.suffix in TAGGED_SUFFIXES), None)
    if nested is not None:
        raise DataError(
            f"{folder}: has no files, and subfolders are not searched; give the path of {nested.parent} or {nested}"
        )


def is_table(file: Path) -> bool:
    """Return True if a file is a table by its name, compressed or not."""
    return strip_compression(file).suffix in tables.SUFFIXES


def group_by_split(folder: Path, files: Sequence[Path]) -> SplitFiles:
    """Files of a folder -> the files of each split.

    If a file is named after a split, only such files are read. Otherwise all files are training data. Several training
    files are joined; of several files of another split the first is read, since test sets are separate measurements.
    """
    names = {file: file_split(file) for file in files}
    if not any(names.values()):
        return SplitFiles({"train": list(files)} if files else {}, _joined_remark(folder, files))
    splits: dict[str, list[Path]] = {}
    for file, split in names.items():
        if split is not None:
            splits.setdefault(split, []).append(file)
    unread = [file for file, split in names.items() if split is None]
    for split in set(splits) - {"train"}:
        unread += splits[split][1:]
        splits[split] = splits[split][:1]
    remarks = _joined_remark(folder, splits.get("train", []))
    if unread:
        remarks += (f"{folder}: not read: {list_names(sorted(unread))}; one file per split is read",)
    return SplitFiles(splits, remarks)


def file_split(file: Path) -> str | None:
    """train.tsv.gz, ner.dev -> the split in the name of a file, or None."""
    name = strip_compression(file)
    return split_of(name.stem if name.suffix in (*tables.SUFFIXES, *TAGGED_SUFFIXES) else name.name)


def split_column_remarks(file: Path) -> tuple[str, ...]:
    """Return a remark on a table whose records name their splits: only files named after splits are splits."""
    column = None
    with suppress(DataError):  # the reader reports the error
        names, is_header = tables.first_names(file) if is_table(file) else ([], False)
        column = next((name for name in names if is_header and name.casefold() in SPLIT_COLUMNS), None)
    if column is None:
        return ()
    name = f"train{file.suffix}, valid{file.suffix}, test{file.suffix}"
    remedy = f"a part is held out by chance instead; to use it, write a file for each split ({name})"
    return (f"{file}: not read: its column {column!r}; {remedy}",)


def _joined_remark(folder: Path, files: Sequence[Path]) -> tuple[str, ...]:
    return (f"{folder}: {len(files)} files are joined: {list_names(files)}",) if len(files) > 1 else ()


def check_same_columns(folder: Path, files: Sequence[Path]) -> None:
    """Raise a DataError if tables that would be joined have different columns."""
    if len(files) < 2:
        return
    columns = {file: tables.first_names(file) for file in files}
    headers = {tuple(sorted(name.casefold() for name in names)) for names, is_header in columns.values() if is_header}
    widths = {len(names) for names, _ in columns.values()}
    all_named = all(is_header for _, is_header in columns.values())
    equal_tops = len({tuple(names) for names, _ in columns.values()}) == 1
    if not (equal_tops or (all_named and len(headers) == 1) or (not headers and len(widths) == 1)):
        first = "; ".join(f"{file.name}: {describe_columns(*columns[file])}" for file in files[:MAX_LISTED])
        raise DataError(
            f"{folder}: {len(files)} tables with different columns ({first}); give the path of one table, or move the "
            "others to another folder"
        )


def describe_columns(names: Sequence[str], is_header: bool) -> str:
    """Return the columns of a table for a message: their names, or their number."""
    return ", ".join(name[:20] for name in names[:6]) if is_header else pluralize(len(names), "column")


def list_names(files: Sequence[Path]) -> str:
    """Return the names of files for a message; of many, the first ones and the number of the others."""
    more = f" and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""
    return ", ".join(file.name for file in files[:MAX_LISTED]) + more
