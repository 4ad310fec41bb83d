"""Captions as they come, each with the name of its image: TSV, CSV, JSON of several kinds; packed or not.

    image.jpg<TAB>caption                 tables of every kind: caption_tables.py
    [{"image", "caption"}]                a list, or one record a line (.jsonl); or {"image.jpg": ["caption"]}
    {"images": [{"filename", "split", "sentences": [{"raw"}]}]}                      Karpathy
    {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}      COCO

A split is told by the row (Karpathy), by the file's name (captions_train.tsv), or by a list of images beside it
(Flickr_8k.trainImages.txt).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.data.captions import tables
from regard.data.captions.tables import CAPTION_COLUMNS, IMAGE_COLUMNS, SPLIT_COLUMNS, Caption, normalize_path
from regard.data.examples import COMPRESSED_SUFFIXES, SPLIT_ALIASES, split_of, strip_compression
from regard.data.files.text_files import read_lines
from regard.data.images.image_files import SUFFIXES
from regard.data.images.listing import is_image

TABLE_SUFFIXES = (".tsv", ".csv", ".txt", ".token")
JSON = (".json", ".jsonl")
SNIFF_CHARS = 5000  # characters of it that are looked at
FORMAT_ERRORS = (ValueError, KeyError, TypeError, AttributeError)
ANNOTATIONS = "annotations"  # the folder beside its images that COCO has its files in
NON_CAPTION_PREFIXES = (
    "instances_",
    "person_keypoints_",
    "stuff_",
    "panoptic_",
)  # files of COCO about other things than captions
SPLIT_LIST_PATTERN = re.compile(r"(train|dev|valid|val|test)[ _.\-]?images", re.IGNORECASE)


def read(path: Path) -> list[Caption]:
    """A file of captions, or a folder of such files -> all captions, in their order."""
    files = _files(path)
    found = [caption for file in files if _holds_captions(file) for caption in _of_file(file)]
    if not found:
        raise DataError(f"{path}: no captions; give image<TAB>caption as .tsv, image,caption as .csv, or .json of COCO")
    listed = {name: split for file in files for name, split in _listed(file)}
    return [c._replace(split=listed.get(Path(c.image).name, c.split)) for c in found]


def has_captions(path: Path) -> bool:
    """Whether a file, or a file of a folder, is one of captions by what its first lines hold."""
    return any(_begins_with_captions(file) for file in _files(path))


def _files(path: Path) -> list[Path]:
    """The files that may hold captions: one, or those of a folder and of its annotations, hidden ones left out."""
    if path.is_file():
        return [path]
    folders = [path, *(folder for folder in [path / ANNOTATIONS] if folder.is_dir())]
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()]
    return [file for file in files if not file.name.startswith((".", *NON_CAPTION_PREFIXES))]


def _begins_with_captions(file: Path) -> bool:
    kind = strip_compression(file).suffix.lower()
    try:
        if kind in JSON:
            begin = "".join(islice(read_lines(file), 100))[:SNIFF_CHARS].lower()
            return any(f'{suffix}"' in begin for suffix in SUFFIXES) and next(_of_json(file), None) is not None
        return kind in TABLE_SUFFIXES and tables.is_caption_table(file)
    except DataError:
        return False


def _holds_captions(file: Path) -> bool:
    """Whether a file's name and, for plain text, its first line say that it has captions."""
    kind = strip_compression(file).suffix.lower()
    if kind in (".json", ".tsv", ".csv", ".token"):
        return True
    return kind in (".txt", ".jsonl") and _begins_with_captions(file)


def _first(file: Path) -> str:
    return next(iter(islice(read_lines(file), 1)), "")


def _of_file(file: Path) -> Iterator[Caption]:
    return _of_json(file) if strip_compression(file).suffix.lower() in JSON else tables.read(file)


def _of_json(file: Path) -> Iterator[Caption]:
    try:
        own = split_of(strip_compression(file).stem)
        if strip_compression(file).suffix.lower() == ".jsonl":
            yield from list(_records([json.loads(line) for line in read_lines(file) if line.strip()], own))
            return
        table: Any = json.loads("\n".join(read_lines(file)))
        if isinstance(table, dict) and table and all(map(is_image, table)):
            table = [{"image": name, "caption": said} for name, said in table.items()]
        if isinstance(table, list):
            yield from list(_records(table, own))
        else:
            yield from list(_karpathy(table) if "annotations" not in table else _coco(table, own))
    except FORMAT_ERRORS as wrong:
        raise DataError(
            f"{file}: no list of images with captions, neither Karpathy's JSON (images with sentences) nor COCO's "
            f"(images, annotations): {wrong!r}"
        ) from None


def _records(table: list[Any], own: str | None) -> Iterator[Caption]:
    """Records whose keys are called as the columns of a table are; a caption is a text or several."""
    for row in table:
        image, caption, split = (
            next((key for key in keys if key in row), None) for keys in (IMAGE_COLUMNS, CAPTION_COLUMNS, SPLIT_COLUMNS)
        )
        if image is None or caption is None:
            raise KeyError("image" if image is None else "caption")
        told = own if split is None else {**SPLIT_ALIASES, "restval": "train"}[str(row[split]).strip().lower()]
        for text in row[caption] if isinstance(row[caption], list) else [row[caption]]:
            yield Caption(normalize_path(str(row[image])), " ".join(str(text).split()), told)


def _karpathy(table: Any) -> Iterator[Caption]:
    for row in table["images"]:
        split = str(row.get("split", ""))
        name = "/".join(part for part in (str(row.get("filepath", "")), str(row["filename"])) if part)
        for sentence in row["sentences"]:
            text = sentence["raw"] if "raw" in sentence else " ".join(sentence["tokens"])
            yield Caption(normalize_path(name), str(text), "train" if split == "restval" else SPLIT_ALIASES.get(split))


def _coco(table: Any, split: str | None) -> Iterator[Caption]:
    names = {row["id"]: str(row["file_name"]) for row in table["images"]}
    for row in table["annotations"]:
        name = normalize_path(names.get(row["image_id"], f"image {row['image_id']}"))
        yield Caption(name, str(row["caption"]), split)


def _listed(file: Path) -> Iterator[tuple[str, str]]:
    """Names of images and their split, where a file is a list of those: Flickr_8k.trainImages.txt."""
    match = SPLIT_LIST_PATTERN.search(file.name)
    if match and file.suffix not in COMPRESSED_SUFFIXES and is_image(_first(file).strip()):
        for line in read_lines(file):
            yield normalize_path(line), SPLIT_ALIASES[match[1].lower()]
