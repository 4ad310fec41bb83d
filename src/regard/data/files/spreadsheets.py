"""Reader of Excel workbooks (.xlsx): the only sheet with data, as rows of text."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.core.extras import require

SUFFIX = ".xlsx"
OTHER_SUFFIXES = (".xls", ".ods", ".numbers")  # spreadsheets that are not read
MAX_BYTES = 2**30  # of an unpacked workbook; a larger one is a decompression bomb


def read_sheet(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Workbook -> the row number and the cells of each row that is not blank."""
    library = require("openpyxl", extra="excel")
    _check_size(path)
    try:
        workbook = library.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # on damaged files the library raises nearly anything: KeyError, ParseError, …
        raise DataError(f"{path}: not a workbook that can be read ({error}); save it as CSV UTF-8") from None
    try:
        sheets = {sheet.title: sheet for sheet in workbook.worksheets if next(_rows(sheet, path), None)}
        if len(sheets) > 1:
            raise DataError(
                f"{path}: {len(sheets)} sheets have data ({', '.join(sheets)}); keep one sheet, or save each as a CSV "
                "file"
            )
        if not sheets:
            raise DataError(f"{path}: the workbook is empty")
        yield from _rows(next(iter(sheets.values())), path)
    finally:
        workbook.close()


def _check_size(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a workbook that can be read ({error}); save it as CSV UTF-8") from None
    if size > MAX_BYTES:
        raise DataError(f"{path}: {size:,} bytes when unpacked; the limit is {MAX_BYTES:,}; save it as CSV UTF-8")


def _rows(sheet: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows; empty cells at their end are removed, but every row is at least as wide as the first."""
    width = 0
    try:
        for line, values in enumerate(sheet.iter_rows(values_only=True), start=1):
            cells = [_cell_text(value) for value in values]
            while len(cells) > width and not cells[-1]:
                cells.pop()
            if any(cell.strip() for cell in cells):
                width = width or len(cells)
                yield line, cells
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile, SyntaxError) as error:  # ParseError is a SyntaxError
        raise DataError(f"{path}: the sheet is damaged ({error}); save it as CSV UTF-8") from None


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime | date):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    return str(value)
