"""Tables of captions with columns for image, caption and split, with or without a header.

image,caption,split        any order if a header names the columns; other columns are ignored
image.jpg#0<TAB>caption    without a header: the image, optionally an index, and then the caption
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError, did_you_mean
from regard.data.examples import SPLIT_ALIASES, split_of, strip_compression
from regard.data.files import tables
from regard.data.files.tables import Record
from regard.data.files.text_files import detect_format, read_lines
from regard.data.images.listing import is_image

IMAGE_COLUMNS = tuple(
    "image images image_name image_path image_file file filename file_name filepath file_path path name img photo"
    " 이미지 이미지명 파일 파일명 사진 그림".split()
)
CAPTION_COLUMNS = tuple("caption captions comment description sentence text 캡션 설명 문장 내용".split())
SPLIT_COLUMNS = ("split", "set", "subset", "분할")
DELIMITERS = "|;,"  # besides a tab


class Caption(NamedTuple):
    """A caption of an image."""

    image: str  # file name, or the end of the path
    text: str
    split: str | None


class Columns(NamedTuple):
    """Column indices; if the caption is the last column, it includes all further cells."""

    image: int
    caption: int
    split: int | None
    width: int  # number of columns


def read(file: Path) -> Iterator[Caption]:
    """Table -> its captions, in order."""
    file_split, columns = split_of(strip_compression(file).stem), None
    for index, record in enumerate(_records(file)):
        if index == 0:
            columns = _columns_by_name(record.cells)
            if columns is not None or _image_name(record.cells[0]).lower() in IMAGE_COLUMNS:
                continue
        if len(record.cells) < 2:
            raise DataError(
                f"{file}, line {record.line}: one column {record.cells[0][:40]!r}; provide the image and its caption"
            )
        if columns is None:
            yield _without_header(record.cells, file_split)
        else:
            yield _with_header(file, record, columns, file_split)


def is_caption_table(file: Path) -> bool:
    """Return True if a table starts with captions: a header that names both columns, or the name of an image."""
    top = [record.cells for record in islice(_records(file), 2)]
    if not top or len(top[0]) < 2:
        return False
    columns = _columns_by_name(top[0])
    if columns is not None:
        names = [top[0][index].strip().lower() for index in (columns.image, columns.caption)]
        explicit = names[0].startswith("image") and names[1].startswith("caption")  # image names may lack their .jpg
        first_image = _image_name(top[1][columns.image]) if len(top) > 1 and len(top[1]) >= columns.width else None
        return first_image is not None and (explicit or is_image(first_image))
    return any(len(cells) > 1 and is_image(_image_name(cells[0])) for cells in top)


def normalize_path(name: str) -> str:
    """Return the name of an image independent of the system: slashes, without leading ./, in NFC."""
    return unicodedata.normalize("NFC", name.strip().replace("\\", "/")).removeprefix("./")


def _records(file: Path) -> Iterator[Record]:
    """Yield the records of a table; cells separated by commas or semicolons may be quoted."""
    if tables.is_spreadsheet(file):
        yield from tables.read_records(file)
        return
    top = next(iter(islice(read_lines(file), 1)), "")
    delimiter = "\t" if "\t" in top else next((char for char in _unquoted(top) if char in DELIMITERS), ",")
    if delimiter in ",;" or detect_format(file).encoding.startswith("utf-16"):
        yield from tables.read_csv(file, delimiter)
        return
    for line_number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            yield Record(line_number, line.split(delimiter))


def _unquoted(line: str) -> str:
    """Return a line without its quoted parts."""
    return "".join(line.split('"')[::2])


def _columns_by_name(cells: Sequence[str]) -> Columns | None:
    """Return the columns that a header names, or None if it does not name both image and caption."""
    names = [cell.strip().lower() for cell in cells]
    image, caption, split = (
        next((names.index(alias) for alias in aliases if alias in names), None)
        for aliases in (IMAGE_COLUMNS, CAPTION_COLUMNS, SPLIT_COLUMNS)
    )
    return None if image is None or caption is None else Columns(image, caption, split, len(names))


def _with_header(file: Path, record: Record, columns: Columns, file_split: str | None) -> Caption:
    cells, last = record.cells, columns.caption == columns.width - 1
    if len(cells) < columns.width or (len(cells) > columns.width and not last):
        raise DataError(
            f"{file}:{record.line}: {len(cells)} cells, but there are {columns.width} columns; captions with "
            "commas must be quoted"
        )
    text = _join(cells[columns.caption :] if last else [cells[columns.caption]])
    split = "" if columns.split is None else cells[columns.split].strip().lower()
    if split and split not in (*SPLIT_ALIASES, "restval"):
        raise DataError(f"{file}:{record.line}: no split {split!r}; {did_you_mean(split, SPLIT_ALIASES)}")
    return Caption(_image_name(cells[columns.image]), text, SPLIT_ALIASES.get(split, "train") if split else file_split)


def _without_header(cells: Sequence[str], file_split: str | None) -> Caption:
    """Parse the image, an optional index, and the caption."""
    words = cells[2:] if len(cells) > 2 and cells[1].strip().isdecimal() else cells[1:]
    return Caption(_image_name(cells[0]), _join(words), file_split)


def _join(cells: Sequence[str]) -> str:
    """Return a caption as one line; the parts of a caption that was split at its commas are joined."""
    return " ".join(", ".join(cell.strip() for cell in cells).split())


def _image_name(cell: str) -> str:
    """image.jpg#2 -> image.jpg."""
    return normalize_path(re.sub(r"#\d+$", "", cell.strip()))
