"""Captions as they come, each with the name of its image: TSV, CSV, Karpathy's JSON, COCO's JSON; packed or not.

    image.jpg<TAB>caption                 tables of every kind: caption_tables.py
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
from regard.data import caption_tables
from regard.data.caption_tables import Caption, written
from regard.data.images.listing import is_image
from regard.data.reading import lines
from regard.data.rows import PACKED, SPLITS, plain, split_of

TABLES = (".tsv", ".csv", ".txt", ".token")
NAMED = ("filename", "file_name")  # keys of a JSON file that speaks of images
GLANCE = 5000  # characters of it that are looked at
DAMAGE = (ValueError, KeyError, TypeError, AttributeError)
ANNOTATIONS = "annotations"  # the folder beside its images that COCO has its files in
OBJECTS = ("instances_", "person_keypoints_", "stuff_", "panoptic_")  # files of COCO about other things than captions
LIST = re.compile(r"(train|dev|valid|val|test)[ _.\-]?images", re.IGNORECASE)


def read(path: Path) -> list[Caption]:
    """A file of captions, or a folder of such files -> all captions, in their order."""
    files = _files(path)
    found = [caption for file in files if _holds_captions(file) for caption in _of_file(file)]
    if not found:
        raise DataError(f"{path}: no captions; give image<TAB>caption as .tsv, image,caption as .csv, or .json of COCO")
    listed = {name: split for file in files for name, split in _listed(file)}
    return [c._replace(split=listed.get(Path(c.image).name, c.split)) for c in found]


def are_captions(path: Path) -> bool:
    """Whether a file, or a file of a folder, is one of captions by what its first lines hold."""
    return any(_begins_with_captions(file) for file in _files(path))


def _files(path: Path) -> list[Path]:
    """The files that may hold captions: one, or those of a folder and of its annotations, hidden ones left out."""
    if path.is_file():
        return [path]
    folders = [path, *(folder for folder in [path / ANNOTATIONS] if folder.is_dir())]
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()]
    return [file for file in files if not file.name.startswith((".", *OBJECTS))]


def _begins_with_captions(file: Path) -> bool:
    kind = plain(file).suffix.lower()
    try:
        if kind == ".json":
            begin = "".join(islice(lines(file), 100))[:GLANCE]
            return any(f'"{key}"' in begin for key in NAMED) and next(_of_json(file), None) is not None
        return kind in TABLES and caption_tables.begins(file)
    except DataError:
        return False


def _holds_captions(file: Path) -> bool:
    """Whether a file's name and, for plain text, its first line say that it has captions."""
    kind = plain(file).suffix.lower()
    if kind in (".json", ".tsv", ".csv", ".token"):
        return True
    return kind == ".txt" and _begins_with_captions(file)


def _first(file: Path) -> str:
    return next(iter(islice(lines(file), 1)), "")


def _of_file(file: Path) -> Iterator[Caption]:
    return _of_json(file) if plain(file).suffix.lower() == ".json" else caption_tables.read(file)


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
            yield Caption(written(name), str(text), "train" if split == "restval" else SPLITS.get(split))


def _coco(table: Any, split: str | None) -> Iterator[Caption]:
    names = {row["id"]: str(row["file_name"]) for row in table["images"]}
    for row in table["annotations"]:
        name = written(names.get(row["image_id"], f"image {row['image_id']}"))
        yield Caption(name, str(row["caption"]), split)


def _listed(file: Path) -> Iterator[tuple[str, str]]:
    """Names of images and their split, where a file is a list of those: Flickr_8k.trainImages.txt."""
    match = LIST.search(file.name)
    if match and file.suffix not in PACKED and is_image(_first(file).strip()):
        for line in lines(file):
            yield written(line), SPLITS[match[1].lower()]
