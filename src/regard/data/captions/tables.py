"""Tables of captions: which column is the image, which the caption, which the split; with a header or without.

image,caption,split        any order, where a header names them; other columns are not read
image.jpg#0<TAB>caption    no header: the image, perhaps a number, and all the rest is the caption
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
DELIMITERS = "|;,"  # what may part cells, beside a tab


class Caption(NamedTuple):
    """What is said of an image."""

    image: str  # its file name, or the end of its path
    text: str
    split: str | None


class Columns(NamedTuple):
    """Places of what is read; a caption that is the last one takes all cells from there on."""

    image: int
    caption: int
    split: int | None
    width: int  # columns there are


def read(file: Path) -> Iterator[Caption]:
    """A table -> its captions, in their order."""
    own, columns = split_of(strip_compression(file).stem), None
    for number, record in enumerate(_records(file)):
        if number == 0:
            columns = _named(record.cells)
            if columns is not None or _name(record.cells[0]).lower() in IMAGE_COLUMNS:
                continue
        if len(record.cells) < 2:
            raise DataError(
                f"{file}, line {record.line}: one column {record.cells[0][:40]!r}; give the image and its caption"
            )
        yield _by_place(record.cells, own) if columns is None else _by_name(file, record, columns, own)


def is_caption_table(file: Path) -> bool:
    """Whether the first records of a table are captions: a header that names both sides, or the name of an image."""
    top = [record.cells for record in islice(_records(file), 2)]
    if not top or len(top[0]) < 2:
        return False
    columns = _named(top[0])
    if columns is not None:
        named = [top[0][place].strip().lower() for place in (columns.image, columns.caption)]
        plainly = named[0].startswith("image") and named[1].startswith("caption")  # names may lack their .jpg
        return len(top) > 1 and len(top[1]) >= columns.width and (plainly or is_image(_name(top[1][columns.image])))
    return any(len(cells) > 1 and is_image(_name(cells[0])) for cells in top)


def normalize_path(name: str) -> str:
    """The name of an image as all systems write it: slashes, no ./ in front, composed characters."""
    return unicodedata.normalize("NFC", name.strip().replace("\\", "/")).removeprefix("./")


def _records(file: Path) -> Iterator[Record]:
    """The records of a table; cells may stand in quotation marks where commas or semicolons part them."""
    top = next(iter(islice(read_lines(file), 1)), "")
    mark = "\t" if "\t" in top else next((each for each in _outside(top) if each in DELIMITERS), ",")
    if mark in ",;" or detect_format(file).encoding.startswith("utf-16"):
        yield from tables.read_csv(file, mark)
        return
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            yield Record(number, line.split(mark))


def _outside(line: str) -> str:
    """A line without what stands in quotation marks."""
    return "".join(line.split('"')[::2])


def _named(cells: Sequence[str]) -> Columns | None:
    """Where a header says that things are; none where it is none, or does not say both sides."""
    names = [cell.strip().lower() for cell in cells]
    image, caption, split = (
        next((names.index(name) for name in known if name in names), None)
        for known in (IMAGE_COLUMNS, CAPTION_COLUMNS, SPLIT_COLUMNS)
    )
    return None if image is None or caption is None else Columns(image, caption, split, len(names))


def _by_name(file: Path, record: Record, columns: Columns, own: str | None) -> Caption:
    cells, last = record.cells, columns.caption == columns.width - 1
    if len(cells) < columns.width or (len(cells) > columns.width and not last):
        raise DataError(
            f"{file}:{record.line}: {len(cells)} cells, but there are {columns.width} columns; a caption with "
            "commas stands in quotation marks"
        )
    text = _joined(cells[columns.caption :] if last else [cells[columns.caption]])
    told = "" if columns.split is None else cells[columns.split].strip().lower()
    if told and told not in (*SPLIT_ALIASES, "restval"):
        raise DataError(f"{file}:{record.line}: no split {told!r}; {did_you_mean(told, SPLIT_ALIASES)}")
    return Caption(_name(cells[columns.image]), text, SPLIT_ALIASES.get(told, "train") if told else own)


def _by_place(cells: Sequence[str], own: str | None) -> Caption:
    """The image, perhaps a number, and the caption."""
    words = cells[2:] if len(cells) > 2 and cells[1].strip().isdigit() else cells[1:]
    return Caption(_name(cells[0]), _joined(words), own)


def _joined(cells: Sequence[str]) -> str:
    """A caption as one line; one that was cut at its commas is put together."""
    return " ".join(", ".join(cell.strip() for cell in cells).split())


def _name(cell: str) -> str:
    """image.jpg#2 -> image.jpg."""
    return normalize_path(re.sub(r"#\d+$", "", cell.strip()))
