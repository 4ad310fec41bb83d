"""Captions as they come, each with the name of its image: TSV, CSV, Karpathy's JSON, COCO's JSON; packed or not.

    image.jpg<TAB>caption                 Flickr8k: image.jpg#0<TAB>caption, or image.jpg<TAB>0<TAB>caption
    image,caption                         CSV, with a header or without; Flickr30k separates by |
    {"images": [{"filename", "split", "sentences": [{"raw"}]}]}                      Karpathy
    {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}      COCO

A split is told by the row (Karpathy), by the file's name (captions_train.tsv), or by a list of images beside it
(Flickr_8k.trainImages.txt).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError
from regard.data.images.listing import is_image
from regard.data.reading import lines
from regard.data.rows import PACKED, SPLITS, plain, split_of

TABLES = (".tsv", ".csv", ".txt", ".token")
HEADERS = ("image", "images", "image_name", "file", "filename", "file_name", "name")
NAMED = ("filename", "file_name")  # keys of a JSON file that speaks of images
GLANCE = 5000  # characters of it that are looked at
DAMAGE = (ValueError, KeyError, TypeError, AttributeError)
LIST = re.compile(r"(train|dev|valid|val|test)[ _.\-]?images", re.IGNORECASE)


class Caption(NamedTuple):
    """What is said of an image."""

    image: str  # its file name, or the end of its path
    text: str
    split: str | None


def read(path: Path) -> list[Caption]:
    """A file of captions, or a folder of such files -> all captions, in their order."""
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    found = [caption for file in files if _holds_captions(file) for caption in _of_file(file)]
    if not found:
        raise DataError(f"{path}: no captions; give image<TAB>caption as .tsv, image,caption as .csv, or .json of COCO")
    listed = {name: split for file in files for name, split in _listed(file)}
    return [c._replace(split=listed.get(Path(c.image).name, c.split)) for c in found]


def are_captions(path: Path) -> bool:
    """Whether a file, or a file of a folder, is one of captions by what its first lines hold."""
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    return any(_begins_with_captions(file) for file in files)


def _begins_with_captions(file: Path) -> bool:
    kind = plain(file).suffix.lower()
    try:
        if kind == ".json":
            begin = "".join(islice(lines(file), 100))[:GLANCE]
            return any(f'"{key}"' in begin for key in NAMED) and next(_of_json(file), None) is not None
        if kind not in TABLES:
            return False
        cells = [_cells(line, _separator(file)) for line in islice(lines(file), 2)]
        return any(len(each) > 1 and is_image(_name(each[0])) for each in cells)
    except DataError:
        return False


def _holds_captions(file: Path) -> bool:
    """Whether a file's name and, for plain text, its first line say that it has captions."""
    kind = plain(file).suffix.lower()
    if kind in (".json", ".tsv", ".csv", ".token"):
        return True
    return kind == ".txt" and len(cells := _cells(_first(file), _separator(file))) > 1 and _is_row(cells)


def _first(file: Path) -> str:
    return next(iter(islice(lines(file), 1)), "")


def _is_row(cells: list[str]) -> bool:
    return cells[0].strip().lower() in HEADERS or is_image(_name(cells[0]))


def _name(cell: str) -> str:
    """image.jpg#2 -> image.jpg."""
    return cell.strip().rpartition("#")[0] if re.search(r"#\d+$", cell.strip()) else cell.strip()


def _of_file(file: Path) -> Iterator[Caption]:
    if plain(file).suffix.lower() == ".json":
        yield from _of_json(file)
        return
    split, separator = split_of(plain(file).stem), _separator(file)
    for number, line in enumerate(lines(file), start=1):
        cells = _cells(line, separator)
        if not line.strip() or (number == 1 and cells[0].strip().lower() in HEADERS):
            continue
        if len(cells) < 2:
            raise DataError(f"{file}, line {number}: one column {line[:40]!r}; give the image and its caption")
        words = cells[2:] if len(cells) > 2 and cells[1].strip().isdigit() else cells[1:]
        yield Caption(_name(cells[0]), ", ".join(cell.strip() for cell in words), split)


def _separator(file: Path) -> str:
    first = _first(file)
    return "\t" if "\t" in first else "|" if "|" in first else ","


def _cells(line: str, separator: str) -> list[str]:
    if separator != ",":
        return line.split(separator)
    return next(csv.reader([line]), [""]) or [""]


def _of_json(file: Path) -> Iterator[Caption]:
    try:
        table: Any = json.loads("\n".join(lines(file)))
        yield from list(_karpathy(table) if "annotations" not in table else _coco(table, split_of(plain(file).stem)))
    except DAMAGE as wrong:
        raise DataError(
            f"{file}: neither Karpathy's JSON (images with sentences) nor COCO's (images, annotations): {wrong!r}"
        ) from None


def _karpathy(table: Any) -> Iterator[Caption]:
    for row in table["images"]:
        split = str(row.get("split", ""))
        name = "/".join(part for part in (str(row.get("filepath", "")), str(row["filename"])) if part)
        for sentence in row["sentences"]:
            text = sentence["raw"] if "raw" in sentence else " ".join(sentence["tokens"])
            yield Caption(name, str(text), "train" if split == "restval" else SPLITS.get(split))


def _coco(table: Any, split: str | None) -> Iterator[Caption]:
    names = {row["id"]: str(row["file_name"]) for row in table["images"]}
    for row in table["annotations"]:
        yield Caption(names.get(row["image_id"], f"image {row['image_id']}"), str(row["caption"]), split)


def _listed(file: Path) -> Iterator[tuple[str, str]]:
    """Names of images and their split, where a file is a list of those: Flickr_8k.trainImages.txt."""
    match = LIST.search(file.name)
    if match and file.suffix not in PACKED and is_image(_first(file).strip()):
        for line in lines(file):
            yield line.strip(), SPLITS[match[1].lower()]
