"""Readers of caption files: TSV, CSV and several JSON formats, plain or compressed.

    image.jpg<TAB>caption                 tables: see tables.py
    [{"image", "caption"}]                a list, or one record per line (.jsonl); or {"image.jpg": ["caption"]}
    {"images": [{"filename", "split", "sentences": [{"raw"}]}]}                      Karpathy
    {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}      COCO

The split of a caption is given in its record (Karpathy), by the name of the file (captions_train.tsv), or by a list of
images in the same folder (Flickr_8k.trainImages.txt).
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
from regard.data.files import table_folders
from regard.data.files.text_files import read_lines
from regard.data.images.image_files import SUFFIXES
from regard.data.images.listing import is_image

TABLE_SUFFIXES = (".tsv", ".csv", ".txt", ".token", ".xlsx")
JSON = (".json", ".jsonl")
SNIFF_CHARS = 5000  # characters of a JSON file that are examined
FORMAT_ERRORS = (ValueError, KeyError, TypeError, AttributeError)
ANNOTATIONS = "annotations"  # folder of the annotation files of COCO
NON_CAPTION_PREFIXES = ("instances_", "person_keypoints_", "stuff_", "panoptic_")  # other annotation files of COCO
SPLIT_LIST_PATTERN = re.compile(r"(train|dev|valid|val|test)[ _.\-]?images", re.IGNORECASE)


def read(path: Path) -> list[Caption]:
    """File of captions, or folder of such files -> all captions, in order."""
    files = _files(path)
    captions = [caption for file in files if _is_caption_file(file) for caption in _read_file(file)]
    if not captions:
        raise DataError(
            f"{path}: no captions; provide image<TAB>caption as .tsv, image,caption as .csv, or a .json file of COCO"
        )
    splits = {name: split for file in files for name, split in _read_split_list(file)}
    return [caption._replace(split=splits.get(Path(caption.image).name, caption.split)) for caption in captions]


def joined_remarks(path: Path) -> tuple[str, ...]:
    """Return a remark if captions are read from several files."""
    read_files = [file for file in _files(path) if _is_caption_file(file)]
    if len(read_files) < 2:
        return ()
    return (f"{path}: {len(read_files)} files are joined: {table_folders.list_names(read_files)}",)


def has_captions(path: Path) -> bool:
    """Return True if the first lines of a file, or of a file in a folder, contain captions."""
    return any(_starts_with_captions(file) for file in _files(path))


def _files(path: Path) -> list[Path]:
    """Return the possible caption files: one, or those of a folder and its annotations, except hidden ones."""
    if path.is_file():
        return [path]
    folders = [path, *(folder for folder in [path / ANNOTATIONS] if folder.is_dir())]
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()]
    return [file for file in files if not file.name.startswith((".", *NON_CAPTION_PREFIXES))]


def _starts_with_captions(file: Path) -> bool:
    suffix = strip_compression(file).suffix.lower()
    try:
        if suffix in JSON:
            head = "".join(islice(read_lines(file), 100))[:SNIFF_CHARS].lower()
            return any(f'{image_suffix}"' in head for image_suffix in SUFFIXES) and any(True for _ in _read_json(file))
        return suffix in TABLE_SUFFIXES and tables.is_caption_table(file)
    except DataError:
        return False


def _is_caption_file(file: Path) -> bool:
    """Return True if a file has captions by its name and, for plain text, by its first line."""
    suffix = strip_compression(file).suffix.lower()
    if suffix in (".json", ".tsv", ".csv", ".token", ".xlsx"):
        return True
    return suffix in (".txt", ".jsonl") and _starts_with_captions(file)


def _first_line(file: Path) -> str:
    return next(iter(islice(read_lines(file), 1)), "")


def _read_file(file: Path) -> Iterator[Caption]:
    return _read_json(file) if strip_compression(file).suffix.lower() in JSON else tables.read(file)


def _read_json(file: Path) -> Iterator[Caption]:
    try:
        file_split = split_of(strip_compression(file).stem)
        if strip_compression(file).suffix.lower() == ".jsonl":
            yield from list(_records([json.loads(line) for line in read_lines(file) if line.strip()], file_split))
            return
        table: Any = json.loads("\n".join(read_lines(file)))
        if isinstance(table, dict) and table and all(map(is_image, table)):
            table = [{"image": name, "caption": captions} for name, captions in table.items()]
        if isinstance(table, list):
            yield from list(_records(table, file_split))
        else:
            yield from list(_karpathy(table) if "annotations" not in table else _coco(table, file_split))
    except FORMAT_ERRORS as error:
        raise DataError(
            f"{file}: not a list of images with captions, neither Karpathy's JSON (images with sentences) nor COCO's "
            f"(images, annotations): {error!r}"
        ) from None


def _records(table: list[Any], file_split: str | None) -> Iterator[Caption]:
    """Records with the keys of table columns -> captions; the value of a caption key is one text or several."""
    for row in table:
        image, caption, split_key = (
            next((key for key in keys if key in row), None) for keys in (IMAGE_COLUMNS, CAPTION_COLUMNS, SPLIT_COLUMNS)
        )
        if image is None or caption is None:
            raise KeyError("image" if image is None else "caption")
        split = file_split
        if split_key is not None:
            split = {**SPLIT_ALIASES, "restval": "train"}[str(row[split_key]).strip().lower()]
        for text in row[caption] if isinstance(row[caption], list) else [row[caption]]:
            yield Caption(normalize_path(str(row[image])), " ".join(str(text).split()), split)


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


def _read_split_list(file: Path) -> Iterator[tuple[str, str]]:
    """Yield names of images and their split if a file is a list of images: Flickr_8k.trainImages.txt."""
    match = SPLIT_LIST_PATTERN.search(file.name)
    if match and file.suffix not in COMPRESSED_SUFFIXES and is_image(_first_line(file).strip()):
        for line in read_lines(file):
            yield normalize_path(line), SPLIT_ALIASES[match[1].lower()]
