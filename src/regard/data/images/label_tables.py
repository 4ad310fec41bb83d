"""Tables of labels next to images: labels.csv with a column of file names and a column of classes.

file,label                 a header names the columns (파일, 종류; id, breed); a column `split` is optional
photos/1.jpg,cat           names are relative paths, file names, or file names without the suffix
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.core.errors import ConfigError, DataError, pluralize
from regard.data.examples import SPLIT_ALIASES, strip_compression
from regard.data.files import table_folders, tables
from regard.data.images.image_files import SUFFIXES

IMAGE_COLUMNS = frozenset(
    "image images image_name image_path image_file image_id imageid file files filename file_name filepath file_path"
    " path id name img photo 이미지 이미지명 파일 파일명 사진 그림".split()
)
LABEL_COLUMNS = frozenset(
    "label labels class classes class_name category target breed species type kind y 라벨 레이블 분류 종류 클래스"
    " 유형 범주".split()
)
CAPTION_COLUMNS = frozenset("caption captions comment description sentence text 캡션 설명 문장 내용".split())
SPLIT_COLUMNS = ("split", "set", "subset", "분할")
TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx")
SNIFF_RECORDS = 400  # records that are examined
MAX_LABEL_WORDS = 4  # a longer text is a caption


class Label(NamedTuple):
    """The class of an image, and its split if the table has one."""

    label: str
    split: str | None


class LabelTable(NamedTuple):
    """Labels of images by normalized name."""

    file: Path
    labels: dict[str, Label]
    names_by_lower: dict[str, str]  # names that differ in more than case

    def find(self, inner: str) -> Label | None:
        """Relative path of an image -> its label by the path, the file name, or the name without its suffix."""
        name = self._name_of(inner)
        return None if name is None else self.labels[name]

    def missing_names(self, images: Iterable[str]) -> list[str]:
        """Paths of images -> the names in the table that none of them has."""
        found = {self._name_of(Path(image).relative_to(self.file.parent).as_posix()) for image in images}
        return [name for name in self.labels if name not in found]

    def _name_of(self, inner: str) -> str | None:
        """Return the name in the table; upper and lower case are equal if no name has the case of the file."""
        path = PurePosixPath(normalize_name(inner))
        candidates = (str(path), path.name, str(path.with_suffix("")), path.stem)
        exact = next((name for name in candidates if name in self.labels), None)
        lower = (self.names_by_lower.get(name.casefold()) for name in candidates)
        return exact if exact is not None else next((name for name in lower if name is not None), None)


class LabelColumns(NamedTuple):
    """Column indices, and True if the first record is a header."""

    image: int
    label: int
    split: int | None
    header: bool


def find_table(path: Path) -> LabelTable | None:
    """Folder of images, or its table -> the labels; None if there is no table of labels. Two tables are an error."""
    if path.is_file():
        return read(path) if _is_label_table(path) else None
    files = [file for file in table_folders.visible_files(path) if _is_label_table(file)]
    if len(files) > 1:
        names = table_folders.list_names(files)
        raise DataError(f"{path}: several tables of labels ({names}); give the path of one, or keep one")
    return read(files[0]) if files else None


def is_table_name(file: Path) -> bool:
    """Return True if a file may be a table of labels by its suffix."""
    return strip_compression(file).suffix.lower() in TABLE_SUFFIXES


def read(file: Path) -> LabelTable:
    """Table -> the labels of images; two labels for one image are an error."""
    records = list(tables.read_records(file))
    columns = find_columns([record.cells for record in records[:SNIFF_RECORDS]])
    if columns is None:
        raise ConfigError(f"{file}: no columns of image names and labels; name them in the first line: file,label")
    labels: dict[str, Label] = {}
    for line, cells in records[columns.header :]:
        if len(cells) <= max(columns.image, columns.label):
            raise DataError(f"{file}:{line}: {pluralize(len(cells), 'cell')}; provide the image and its label")
        name, label = normalize_name(cells[columns.image]), cells[columns.label].strip()
        if not label:
            raise DataError(f"{file}:{line}: {name!r} has no label; add it, or delete the line")
        split = "" if columns.split is None else cells[columns.split].strip().lower()
        previous = labels.setdefault(name, Label(label, SPLIT_ALIASES.get(split)))
        if previous.label != label:
            raise DataError(f"{file}:{line}: {name!r} is labeled {label!r} here and {previous.label!r} above; keep one")
    counts = Counter(name.casefold() for name in labels)
    return LabelTable(file, labels, {name.casefold(): name for name in labels if counts[name.casefold()] == 1})


def find_columns(records: Sequence[Sequence[str]]) -> LabelColumns | None:
    """First records of a table -> the columns of image and label; None if it is no table of labels."""
    if not records or len(records[0]) < 2:
        return None
    names = [cell.strip().casefold() for cell in records[0]]
    image = next((i for i, name in enumerate(names) if name in IMAGE_COLUMNS), None)
    label = next((i for i, name in enumerate(names) if name in LABEL_COLUMNS), None)
    split = next((i for i, name in enumerate(names) if name in SPLIT_COLUMNS), None)
    if image is not None and label is not None:
        return LabelColumns(image, label, split, header=True)
    if any(name in CAPTION_COLUMNS for name in names):
        return None
    has_header = not any(_is_image_name(cell) for cell in records[0])
    rows = [cells for cells in (records[1:] if has_header else records) if len(cells) == len(records[0])]
    columns = list(zip(*rows, strict=True))
    image = next((i for i, column in enumerate(columns) if all(map(_is_image_name, column))), None)
    if image is None:
        return None
    candidates = [i for i in range(len(columns)) if i not in (image, split) and _are_labels(columns[i])]
    return LabelColumns(image, candidates[0], split, has_header) if len(candidates) == 1 else None


def describe_missing(missing: Sequence[str], total: int) -> str:
    """Names without an image, number of all names -> the remark on them."""
    return f"{len(missing):,} of {total:,} names have no readable image: {missing[0]!r}" + (
        " …" if len(missing) > 1 else ""
    )


def normalize_name(name: str) -> str:
    """Return the name of an image independent of the system: slashes, without leading ./, in NFC."""
    return unicodedata.normalize("NFC", name.strip().replace("\\", "/")).removeprefix("./")


def _is_label_table(file: Path) -> bool:
    if not is_table_name(file):
        return False
    try:
        head = [record.cells for record in islice(tables.read_records(file), SNIFF_RECORDS)]
    except DataError:
        return False
    columns = find_columns(head)
    if columns is None:
        return False
    return _are_labels([cells[columns.label] for cells in head[columns.header :] if len(cells) > columns.label])


def _are_labels(cells: Sequence[str]) -> bool:
    """Return True if cells are classes: short, and repeated; captions are longer and differ."""
    values = [cell.strip() for cell in cells]
    is_short = all(len(value.split()) <= MAX_LABEL_WORDS for value in values)
    return bool(values) and is_short and 1 < len(set(values)) <= max(2, len(values) // 2)


def _is_image_name(cell: str) -> bool:
    return PurePosixPath(cell.strip().replace("\\", "/")).suffix.lower() in SUFFIXES
