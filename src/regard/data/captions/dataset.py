"""Images with what is said of them, several captions each: scenes made by code, or files.

Nothing is dropped silently: images that cannot be read, images without a caption and captions without an image are
counted and named in the remarks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core import checksums
from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, DataError, did_you_mean, pluralize
from regard.core.files import cache_folder
from regard.core.protocols import Indices, Padded
from regard.data import batching
from regard.data.builtin import scenes
from regard.data.builtin.scenes import Word
from regard.data.captions import files
from regard.data.captions.tables import Caption, normalize_path
from regard.data.images import listing
from regard.data.images.cache import CachedImages, load_or_build
from regard.data.images.dataset import add_missing_splits, files_fingerprint
from regard.data.images.image_files import Pixels, open_image
from regard.data.images.listing import is_image
from regard.data.images.loader import ImageReader, Record, TargetShape
from regard.data.images.resize import ImageShape

BUILT_IN = "scenes"
HELD_OUT_SCENES = 500  # scenes for valid and for test each
MAX_LISTED_NAMES = 40  # names that a remark gives; the rest is counted
Language = Literal["en", "ko"]
Regions = tuple[tuple[Word, ...], ...]  # of each caption its words, each with its region


class CaptionedImages(NamedTuple):
    """The images of one split, each with its captions."""

    pixels: Pixels  # (n h w c) of all splits
    indices: Indices  # those of this split
    captions: tuple[tuple[str, ...], ...]  # of each image of this split
    regions: tuple[Regions, ...] = ()  # of each image, where it is known what the words speak of

    def __len__(self) -> int:
        return len(self.indices)

    def images(self, examples: Indices) -> Pixels:
        """Example numbers -> pixels (b h w c)."""
        return self.pixels[self.indices[examples]]

    def checksum(self) -> str:
        """The same for the same images and captions."""
        pixels = (blake2b(self.pixels[row].tobytes()).hexdigest() for row in self.indices.tolist())
        return checksums.hash_rows(zip(pixels, self.captions, strict=True))


class CaptionCollection(NamedTuple):
    """Splits, shape, and what a user should know."""

    splits: dict[str, CaptionedImages]
    shape: ImageShape
    remarks: tuple[str, ...] = ()

    def split(self, name: str) -> CaptionedImages:
        """The images of a split, or an error that lists the splits there are."""
        if name not in self.splits:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self.splits)}")
        return self.splits[name]


class CaptionBatch(NamedTuple):
    """Images and their captions, those of an image side by side; an image that has fewer has empty ones."""

    images: Tensor  # (b c h w), as a model takes them
    captions: Padded  # (b·n t): start w1 … wn end


def check_source(name: str) -> None:
    """An error unless a name is that of the built-in scenes."""
    if name != BUILT_IN:
        raise ConfigError(f"no data {name!r}; files are given as data.path=…; {did_you_mean(name, (BUILT_IN,))}")


def make_scenes(count: int, *, side: int, language: Language, seed: int, **how: Any) -> CaptionCollection:
    """Scenes of the built-in shapes, `how` as for `scenes.generate`; valid and test have kinds that train has not."""
    sizes = {"train": count, "valid": min(count, HELD_OUT_SCENES), "test": min(count, HELD_OUT_SCENES)}
    splits = {
        split: from_scenes(scenes.generate(split, size, seed=seed, side=side, **how), language)
        for split, size in sizes.items()
    }
    return CaptionCollection(splits, ImageShape(side, side, 3))


def from_scenes(generated: Sequence[scenes.Scene], language: Language) -> CaptionedImages:
    """Scenes -> images with captions whose words know their region."""
    regions = tuple((scene.caption(language),) for scene in generated)
    captions = tuple(tuple(caption_text(words) for words in each) for each in regions)
    return CaptionedImages(
        np.stack([scene.pixels for scene in generated]), np.arange(len(generated)), captions, regions
    )


def caption_text(words: Sequence[Word]) -> str:
    """The words of a caption as one text."""
    return " ".join(word.text for word in words)


def pad_captions(token_rows: Sequence[Sequence[Sequence[int]]], count: int, special_tokens: SpecialTokens) -> Padded:
    """Captions of each image as tokens -> `count` of each side by side (b·count t), start and end marks around each;
    of more, so many are drawn; where there are fewer, empty rows stand in."""
    padded: list[list[int]] = []
    for own in token_rows:
        chosen = torch.randperm(len(own))[:count].tolist() if len(own) > count else range(len(own))
        padded += [[special_tokens.bos, *own[number], special_tokens.eos] for number in chosen]
        padded += [[]] * (count - len(chosen))
    return batching.pad(padded)


def read_files(path: Path, target_shape: TargetShape, *, seed: int) -> CaptionCollection:
    """A folder of images (or archives of them) and files of captions, or one such file -> images with captions."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give images with their captions beside them")
    said = files.read(path)
    images = _images(path if path.is_dir() else path.parent, target_shape)
    matched = _match(said, images)
    if not matched.captions:
        if not matched.missing:
            raise DataError(f"{path}: all captions are empty; write what is to be said of the images")
        missing = f"{pluralize(len(matched.missing), 'image')} not found: {matched.missing[0]!r} …"
        raise DataError(f"{path}: no caption has its image, {missing}; write names as those of the files")
    given = {name: np.array(rows, np.int64) for name, rows in matched.splits.items() if rows}
    loose = given.pop("", np.zeros(0, np.int64))
    if len(loose):
        given["train"] = np.concatenate([given.get("train", loose[:0]), loose])
    rows = add_missing_splits(given, _keys(images.pixels, seed))
    splits: dict[str, CaptionedImages] = {
        name: CaptionedImages(
            images.pixels, rows[name], tuple(tuple(matched.captions[row]) for row in rows[name].tolist())
        )
        for name in ("train", "valid", "test")
        if name in rows
    }
    return CaptionCollection(splits, images.shape, (*images.remarks, *_remarks(matched, images)))


class MatchedCaptions(NamedTuple):
    """Captions by the number of their image, the images of each split, and what has no partner."""

    captions: dict[int, list[str]]
    splits: dict[str, list[int]]
    missing: list[str]  # images that have captions but are not there
    blank: int  # captions without a word


class ImageIndex:
    """Paths of images, found by a name or by the end of a path, as captions give it."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = [normalize_path(path) for path in paths]
        self._rows: dict[str, list[int]] = defaultdict(list)
        self._stems: dict[str, list[int]] = defaultdict(list)  # images may be named without their kind
        for row, path in enumerate(self.paths):
            self._rows[Path(path).name].append(row)
            self._stems[path.removesuffix(Path(path).suffix).rpartition("/")[2]].append(row)

    def find(self, image: str) -> list[int]:
        """The numbers of the images that are meant: one, none, or several of one name."""
        rows = self._rows.get(Path(image).name, [])
        if not rows and not is_image(image):
            rows = self._stems.get(Path(image).name, [])
            return [row for row in rows if f"/{self.paths[row]}".rpartition(".")[0].endswith(f"/{image}")] or rows
        return [row for row in rows if f"/{self.paths[row]}".endswith(f"/{image}")] or rows

    def find_similar(self, image: str) -> str | None:
        """An image that is written the same but for large and small letters, or of another kind of file."""
        stem = Path(image).stem.lower()
        return next((path for path in self.paths if Path(path).stem.lower() == stem), None)


def _match(said: Sequence[Caption], images: CachedImages) -> MatchedCaptions:
    names = ImageIndex([images.classes[label] for label in images.labels.tolist()])
    captions: dict[int, list[str]] = defaultdict(list)
    splits: dict[str, dict[int, None]] = defaultdict(dict)
    missing: dict[str, None] = {}
    blank = 0
    for image, text, split in said:
        rows = names.find(image)
        if len(rows) > 1:
            places = " and ".join(names.paths[row] for row in rows[:2])
            raise DataError(f"the caption of {image!r} may belong to {places}; give the folder of the image too")
        if not rows:
            missing[image] = None
        elif not text.strip():
            blank += 1
        else:
            captions[rows[0]].append(text.strip())
            splits[split or ""][rows[0]] = None
    return MatchedCaptions(dict(captions), {name: list(each) for name, each in splits.items()}, list(missing), blank)


def _remarks(matched: MatchedCaptions, images: CachedImages) -> list[str]:
    silent = [images.classes[label] for row, label in enumerate(images.labels) if row not in matched.captions]
    return [
        *summarize_names("images that have captions are not there, or cannot be read", matched.missing),
        *summarize_names("images have no caption and are left out", silent),
        *([f"{matched.blank} captions are empty and are left out"] if matched.blank else []),
    ]


def summarize_names(problem: str, names: Sequence[str]) -> list[str]:
    """What is to be said of some images: their number, and the first of them by name."""
    if not names:
        return []
    more = f" … and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return [f"{len(names)} {problem}: {', '.join(names[:MAX_LISTED_NAMES])}{more}"]


def _images(root: Path, wanted: TargetShape) -> CachedImages:
    """Every image below a folder, its path as its class; read once and mapped from the cache afterwards."""
    reader = ImageReader(wanted)
    key = sha256(f"captions 1 {wanted} {files_fingerprint(root)}".encode()).hexdigest()[:24]
    return load_or_build(reader, lambda: _records(root, reader), key=key, folder=cache_folder() / "images")


def _records(root: Path, reader: ImageReader) -> Iterator[Record]:
    unread: list[str] = []
    count = 0
    for entry in listing.list_images(root):
        name = entry.where.removeprefix(f"{root}/")
        try:
            opened = open_image(entry.source, name=name)
        except DataError as wrong:
            unread.append(str(wrong))
            continue
        count += 1
        for remark in opened.remarks:
            reader.remarks.add(remark, name)
        yield Record(None, name, reader.to_pixels(opened.image, name))
    if not count:
        raise DataError(unread[0] if unread else f"{root}: no images in it; give PNG, JPEG … or archives of them")
    for line in summarize_names("images cannot be read and are left out", unread):
        reader.remarks.add(line, str(root))


def _keys(pixels: Pixels, seed: int) -> NDArray[np.uint64]:
    """A number for each image, the same for equal images, unlike from seed to seed."""
    salt = seed.to_bytes(16, "little", signed=True)
    digests = (blake2b(image.tobytes(), digest_size=8, salt=salt).digest() for image in pixels)
    return np.frombuffer(b"".join(digests), np.uint64)
