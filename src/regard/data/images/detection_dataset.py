"""Images with the boxes of their objects: scenes made by code, or COCO's JSON beside a folder of images."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.data.builtin import scenes
from regard.data.examples import split_of
from regard.data.images.dataset import add_missing_splits
from regard.data.images.image_files import Pixels, open_image
from regard.data.images.loader import Remarks
from regard.data.images.resize import ImageShape

BUILT_IN = "scenes"
HELD_OUT_SCENES = 500  # scenes for valid and for test each; no more than there are for training
READ_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError)


class DetectionImages(NamedTuple):
    """The images of one split, each with its objects."""

    pixels: Pixels  # (n h w c)
    labels: list[NDArray[np.int64]]  # of each image (m)
    boxes: list[NDArray[np.float32]]  # of each image (m 4): left, top, right, bottom as shares of the image

    def __len__(self) -> int:
        return len(self.pixels)


class DetectionCollection(NamedTuple):
    """Splits, classes, shape, and what a user should know."""

    splits: dict[str, DetectionImages]
    classes: tuple[str, ...]
    shape: ImageShape
    remarks: tuple[str, ...] = ()

    def split(self, name: str) -> DetectionImages:
        """The images of a split, or an error that lists the splits there are."""
        if name not in self.splits:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self.splits)}")
        return self.splits[name]


def make_scenes(count: int, *, side: int, things: tuple[int, int], seed: int) -> DetectionCollection:
    """Scenes of the built-in shapes; those of valid and test have pairs of colour and shape that train has not."""
    held_out = min(count, HELD_OUT_SCENES)
    sizes = {"train": count, "valid": held_out, "test": held_out}
    classes = tuple(scenes.SHAPES)
    splits = {}
    for split, size in sizes.items():
        made = scenes.generate(split, size, seed=seed, side=side, things=things)
        splits[split] = DetectionImages(
            np.stack([scene.pixels for scene in made]),
            [np.array([classes.index(thing.shape) for thing in scene.objects]) for scene in made],
            [np.array([thing.box for thing in scene.objects], dtype=np.float32) for scene in made],
        )
    return DetectionCollection(splits, classes, ImageShape(side, side, 3))


def read_coco(path: Path, shape: ImageShape, *, seed: int) -> DetectionCollection:
    """A folder with COCO's JSON (one file, or one a split) and the images it names -> images with their boxes."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files or not all(file.exists() for file in files):
        raise DataError(f"{path}: no .json file with images, annotations and categories; give COCO's format")
    remarks, names = Remarks(), dict[int, str]()
    parts: dict[str, DetectionImages] = {}
    for file in files:
        table = _read(file)
        names |= {int(row["id"]): str(row["name"]) for row in table["categories"]}
        parts[split_of(file.stem) or "train"] = _labelled(file, table, shape, remarks)
    order = sorted(names)
    classes = tuple(names[number] for number in order)
    for split, part in parts.items():
        parts[split] = DetectionImages(part.pixels, [_numbered(each, order) for each in part.labels], part.boxes)
    return DetectionCollection(_completed(parts, seed), classes, shape, tuple(remarks.lines()))


def _read(file: Path) -> dict[str, Any]:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        return {name: list(table[name]) for name in ("images", "annotations", "categories")}
    except READ_ERRORS as wrong:
        raise DataError(f"{file}: not COCO's JSON ({wrong!r}); it needs images, annotations and categories") from None


def _labelled(file: Path, table: dict[str, Any], shape: ImageShape, remarks: Remarks) -> DetectionImages:
    objects = defaultdict(list)
    for row in table["annotations"]:
        objects[row["image_id"]].append((int(row["category_id"]), [float(x) for x in row["bbox"]]))
    pixels, labels, boxes = [], [], []
    for row in table["images"]:
        opened = open_image(_find(file.parent, str(row["file_name"])))
        for remark in opened.remarks:
            remarks.add(remark, str(row["file_name"]))
        pixels.append(shape.apply(opened.image))
        inside = [_box(box, opened.image) for _, box in objects[row["id"]]]
        kept = [place for place, box in enumerate(inside) if box[2] > box[0] and box[3] > box[1]]
        for _ in range(len(inside) - len(kept)):
            remarks.add("a box without an area inside the image: left out", str(row["file_name"]))
        labels.append(np.array([objects[row["id"]][place][0] for place in kept], dtype=np.int64))
        boxes.append(np.array([inside[place] for place in kept], dtype=np.float32).reshape(-1, 4))
    if not pixels:
        raise DataError(f"{file}: there are no images in it")
    return DetectionImages(np.stack(pixels), labels, boxes)


def _find(folder: Path, name: str) -> Path:
    """An image beside the JSON file, or one folder below; never outside."""
    plain = Path(name).name
    choices = (folder / plain, *sorted(folder.glob(f"*/{plain}")))
    return next((path for path in choices if path.is_file()), folder / plain)


def _box(box: list[float], image: Any) -> tuple[float, float, float, float]:
    """Left, top, width, height in pixels -> left, top, right, bottom as shares, inside the image."""
    left, top, wide, high = box
    edges = left / image.width, top / image.height, (left + wide) / image.width, (top + high) / image.height
    first, second, third, fourth = (min(1.0, max(0.0, edge)) for edge in edges)
    return first, second, third, fourth


def _numbered(labels: NDArray[np.int64], order: list[int]) -> NDArray[np.int64]:
    return np.array([order.index(int(label)) for label in labels], dtype=np.int64)


def _completed(splits: dict[str, DetectionImages], seed: int) -> dict[str, DetectionImages]:
    """Missing splits are cut off train."""
    if "train" not in splits:
        raise DataError(f"there are no training images; found {', '.join(splits)}")
    train = splits["train"]
    given = {name: np.arange(len(part)) for name, part in splits.items()}
    keys = np.random.default_rng(seed).permutation(len(train)).astype(np.uint64)
    rows = add_missing_splits(given, keys)
    cut = {name: _some(train, rows[name]) for name in rows if name not in splits or name == "train"}
    return splits | cut


def _some(part: DetectionImages, rows: NDArray[np.int64]) -> DetectionImages:
    return DetectionImages(part.pixels[rows], [part.labels[row] for row in rows], [part.boxes[row] for row in rows])


def check_source(name: str) -> None:
    """An error unless a name is that of the built-in scenes."""
    if name != BUILT_IN:
        raise ConfigError(f"no data {name!r}; files are given as data.path=…; {did_you_mean(name, (BUILT_IN,))}")
