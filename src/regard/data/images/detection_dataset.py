"""Object detection datasets: generated scenes, or a COCO JSON file with a folder of images."""

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
HELD_OUT_SCENES = 500  # scenes of valid and of test, but at most as many as of train
READ_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError)


class DetectionImages(NamedTuple):
    """The images of one split, with the classes and boxes of their objects."""

    pixels: Pixels  # (n h w c)
    labels: list[NDArray[np.int64]]  # per image (m)
    boxes: list[NDArray[np.float32]]  # per image (m 4): left, top, right, bottom as fractions of the image

    def __len__(self) -> int:
        return len(self.pixels)


class DetectionCollection(NamedTuple):
    """Detection dataset: splits, classes, image shape, and remarks for the user."""

    splits: dict[str, DetectionImages]
    classes: tuple[str, ...]
    shape: ImageShape
    remarks: tuple[str, ...] = ()

    def split(self, name: str) -> DetectionImages:
        """Return the images of a split; an unknown split is an error that lists the splits."""
        if name not in self.splits:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self.splits)}")
        return self.splits[name]


def make_scenes(count: int, *, side: int, things: tuple[int, int], seed: int) -> DetectionCollection:
    """Generate scenes of simple shapes; valid and test contain pairs of colour and shape that train does not."""
    held_out = min(count, HELD_OUT_SCENES)
    sizes = {"train": count, "valid": held_out, "test": held_out}
    classes = tuple(scenes.SHAPES)
    splits = {}
    for split, size in sizes.items():
        generated = scenes.generate(split, size, seed=seed, side=side, things=things)
        splits[split] = DetectionImages(
            np.stack([scene.pixels for scene in generated]),
            [np.array([classes.index(thing.shape) for thing in scene.objects]) for scene in generated],
            [np.array([thing.box for thing in scene.objects], dtype=np.float32) for scene in generated],
        )
    return DetectionCollection(splits, classes, ImageShape(side, side, 3))


def read_coco(path: Path, shape: ImageShape, *, seed: int) -> DetectionCollection:
    """Read a folder with COCO JSON (one file, or one per split) and the image files that it names."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files or not all(file.exists() for file in files):
        raise DataError(f"{path}: no .json file with images, annotations and categories; give the COCO format")
    remarks, names = Remarks(), dict[int, str]()
    parts: dict[str, DetectionImages] = {}
    for file in files:
        table = _read(file)
        names |= {int(row["id"]): str(row["name"]) for row in table["categories"]}
        parts[split_of(file.stem) or "train"] = _read_images(file, table, shape, remarks)
    category_ids = sorted(names)
    classes = tuple(names[category_id] for category_id in category_ids)
    for split, part in parts.items():
        parts[split] = DetectionImages(
            part.pixels, [_to_class_ids(labels, category_ids) for labels in part.labels], part.boxes
        )
    return DetectionCollection(_add_missing_splits(parts, seed), classes, shape, tuple(remarks.lines()))


def _read(file: Path) -> dict[str, Any]:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        return {name: list(table[name]) for name in ("images", "annotations", "categories")}
    except READ_ERRORS as error:
        raise DataError(f"{file}: not COCO JSON ({error!r}); it needs images, annotations and categories") from None


def _read_images(file: Path, table: dict[str, Any], shape: ImageShape, remarks: Remarks) -> DetectionImages:
    objects = defaultdict(list)
    for row in table["annotations"]:
        objects[row["image_id"]].append((int(row["category_id"]), [float(x) for x in row["bbox"]]))
    pixels, labels, boxes = [], [], []
    for row in table["images"]:
        opened = open_image(_find_image(file.parent, str(row["file_name"])))
        for remark in opened.remarks:
            remarks.add(remark, str(row["file_name"]))
        pixels.append(shape.apply(opened.image))
        clipped = [_to_relative_box(box, opened.image) for _, box in objects[row["id"]]]
        valid = [index for index, box in enumerate(clipped) if box[2] > box[0] and box[3] > box[1]]
        for _ in range(len(clipped) - len(valid)):
            remarks.add("a box without an area inside the image: left out", str(row["file_name"]))
        labels.append(np.array([objects[row["id"]][index][0] for index in valid], dtype=np.int64))
        boxes.append(np.array([clipped[index] for index in valid], dtype=np.float32).reshape(-1, 4))
    if not pixels:
        raise DataError(f"{file}: contains no images")
    return DetectionImages(np.stack(pixels), labels, boxes)


def _find_image(folder: Path, name: str) -> Path:
    """Return the path of an image next to the JSON file or one folder below, never outside."""
    base_name = Path(name).name
    candidates = (folder / base_name, *sorted(folder.glob(f"*/{base_name}")))
    return next((path for path in candidates if path.is_file()), folder / base_name)


def _to_relative_box(box: list[float], image: Any) -> tuple[float, float, float, float]:
    """Left, top, width, height in pixels -> left, top, right, bottom as fractions, clipped to the image."""
    left, top, width, height = box
    edges = left / image.width, top / image.height, (left + width) / image.width, (top + height) / image.height
    first, second, third, fourth = (min(1.0, max(0.0, edge)) for edge in edges)
    return first, second, third, fourth


def _to_class_ids(labels: NDArray[np.int64], category_ids: list[int]) -> NDArray[np.int64]:
    return np.array([category_ids.index(int(label)) for label in labels], dtype=np.int64)


def _add_missing_splits(splits: dict[str, DetectionImages], seed: int) -> dict[str, DetectionImages]:
    """Cut missing splits off train."""
    if "train" not in splits:
        raise DataError(f"there are no training images; the splits are: {', '.join(splits)}")
    train = splits["train"]
    indices = {name: np.arange(len(part)) for name, part in splits.items()}
    keys = np.random.default_rng(seed).permutation(len(train)).astype(np.uint64)
    rows = add_missing_splits(indices, keys)
    subsets = {name: _subset(train, rows[name]) for name in rows if name not in splits or name == "train"}
    return splits | subsets


def _subset(part: DetectionImages, rows: NDArray[np.int64]) -> DetectionImages:
    return DetectionImages(part.pixels[rows], [part.labels[row] for row in rows], [part.boxes[row] for row in rows])


def check_source(name: str) -> None:
    """Raise a ConfigError unless the name is that of the built-in scenes."""
    if name != BUILT_IN:
        raise ConfigError(f"no data {name!r}; files are given as data.path=…; {did_you_mean(name, (BUILT_IN,))}")
