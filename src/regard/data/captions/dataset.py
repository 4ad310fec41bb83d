"""Captioned images, several captions each: built-in scenes or files.

Nothing is dropped silently: unreadable images, images without a caption and captions without an image are counted and
named in the remarks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
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
from regard.data.examples import Splits, hash_keys
from regard.data.images import listing
from regard.data.images.cache import CachedImages, load_or_build
from regard.data.images.dataset import add_missing_splits, files_fingerprint
from regard.data.images.image_files import Pixels, open_image
from regard.data.images.listing import is_image
from regard.data.images.loader import ImageReader, Record, TargetShape
from regard.data.images.resize import ImageShape

BUILT_IN = "scenes"
HELD_OUT_SCENES = 500  # scenes in each of valid and test
MAX_LISTED_NAMES = 40  # names in a remark; the others are counted
Language = Literal["en", "ko"]
Regions = tuple[tuple[Word, ...], ...]  # the words of each caption with their regions


class CaptionedImages(NamedTuple):
    """The images of one split, each with its captions."""

    pixels: Pixels  # (n h w c) of all splits
    indices: Indices  # images of this split
    captions: tuple[tuple[str, ...], ...]  # captions of each image of this split
    regions: tuple[Regions, ...] = ()  # regions of each image, for built-in scenes

    def __len__(self) -> int:
        return len(self.indices)

    def images(self, examples: Indices) -> Pixels:
        """Example indices -> pixels (b h w c)."""
        return self.pixels[self.indices[examples]]

    def checksum(self) -> str:
        """Return a checksum of the images and captions."""
        pixels = (blake2b(self.pixels[row].tobytes()).hexdigest() for row in self.indices.tolist())
        return checksums.hash_rows(zip(pixels, self.captions, strict=True))


class CaptionCollection(NamedTuple):
    """Splits, image shape, and remarks for the user."""

    splits: Splits[CaptionedImages]
    shape: ImageShape
    remarks: tuple[str, ...] = ()

    def split(self, name: str) -> CaptionedImages:
        """Return the images of a split, or raise an error that lists the existing splits."""
        return self.splits[name]


class CaptionBatch(NamedTuple):
    """Images and n captions per image; an image with fewer captions has empty rows."""

    images: Tensor  # (b c h w), normalized for the model
    captions: Padded  # (b·n t): BOS w1 … wn EOS


def check_source(name: str) -> None:
    """Raise an error unless a name is that of the built-in scenes."""
    if name != BUILT_IN:
        raise ConfigError(f"no data {name!r}; files are given as data.path=…; {did_you_mean(name, (BUILT_IN,))}")


def make_scenes(count: int, *, side: int, language: Language, seed: int, **options: Any) -> CaptionCollection:
    """Generate built-in scenes with the options of `scenes.generate`; valid and test have kinds that train has not."""
    sizes = {"train": count, "valid": min(count, HELD_OUT_SCENES), "test": min(count, HELD_OUT_SCENES)}
    splits = {
        split: from_scenes(scenes.generate(split, size, seed=seed, side=side, **options), language)
        for split, size in sizes.items()
    }
    return CaptionCollection(Splits(splits), ImageShape(side, side, 3))


def from_scenes(generated: Sequence[scenes.Scene], language: Language) -> CaptionedImages:
    """Scenes -> images with captions and the region of each word."""
    regions = tuple((scene.caption(language),) for scene in generated)
    captions = tuple(tuple(caption_text(words) for words in scene_captions) for scene_captions in regions)
    return CaptionedImages(
        np.stack([scene.pixels for scene in generated]), np.arange(len(generated)), captions, regions
    )


def caption_text(words: Sequence[Word]) -> str:
    """Join the words of a caption."""
    return " ".join(word.text for word in words)


def pad_captions(token_rows: Sequence[Sequence[Sequence[int]]], count: int, special_tokens: SpecialTokens) -> Padded:
    """Captions of each image as tokens -> `count` rows per image (b·count t) with BOS and EOS.

    If an image has more captions, `count` of them are drawn; if it has fewer, empty rows are added.
    """
    padded: list[list[int]] = []
    for captions in token_rows:
        chosen = torch.randperm(len(captions))[:count].tolist() if len(captions) > count else range(len(captions))
        padded += [[special_tokens.bos, *captions[index], special_tokens.eos] for index in chosen]
        padded += [[]] * (count - len(chosen))
    return batching.pad(padded)


def read_files(path: Path, target_shape: TargetShape, *, seed: int) -> CaptionCollection:
    """Folder with images (or archives of images) and caption files, or one caption file -> captioned images."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; provide images and their captions in one folder")
    captions = files.read(path)
    images = _images(path if path.is_dir() else path.parent, target_shape)
    matched = _match(captions, images)
    if not matched.captions:
        if not matched.missing:
            raise DataError(f"{path}: all captions are empty; add captions for the images")
        missing = f"{pluralize(len(matched.missing), 'image')} not found: {matched.missing[0]!r} …"
        raise DataError(f"{path}: no caption matches an image, {missing}; use the names of the image files")
    stored = {name: np.array(indices, np.int64) for name, indices in matched.splits.items() if indices}
    without_split = stored.pop("", np.zeros(0, np.int64))
    if len(without_split):
        stored["train"] = np.concatenate([stored.get("train", without_split[:0]), without_split])
    indices = add_missing_splits(stored, hash_keys((image.tobytes() for image in images.pixels), seed))
    splits: dict[str, CaptionedImages] = {
        name: CaptionedImages(
            images.pixels, indices[name], tuple(tuple(matched.captions[index]) for index in indices[name].tolist())
        )
        for name in ("train", "valid", "test")
        if name in indices
    }
    remarks = (*files.joined_remarks(path), *images.remarks, *_remarks(matched, images))
    return CaptionCollection(Splits(splits), images.shape, remarks)


class MatchedCaptions(NamedTuple):
    """Captions by image index, the images of each split, and the unmatched captions."""

    captions: dict[int, list[str]]
    splits: dict[str, list[int]]
    missing: list[str]  # names in captions without an image file
    blank: int  # number of empty captions


class ImageIndex:
    """Finds images by name or by the end of their path; exact names before those that differ in case."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = [normalize_path(path) for path in paths]
        self._by_name: dict[str, list[int]] = defaultdict(list)
        self._by_lower_name: dict[str, list[int]] = defaultdict(list)
        self._by_stem: dict[str, list[int]] = defaultdict(list)  # captions may omit the suffix
        for index, path in enumerate(self.paths):
            self._by_name[Path(path).name].append(index)
            self._by_lower_name[Path(path).name.casefold()].append(index)
            self._by_stem[path.removesuffix(Path(path).suffix).rpartition("/")[2]].append(index)

    def find(self, image: str) -> list[int]:
        """Return the indices of matching images: none, one, or several of the same name."""
        name = Path(image).name
        matches = self._by_name.get(name) or self._by_lower_name.get(name.casefold(), [])
        if not matches and not is_image(image):
            matches = self._by_stem.get(Path(image).name, [])
            return [i for i in matches if f"/{self.paths[i]}".rpartition(".")[0].endswith(f"/{image}")] or matches
        end = f"/{image}"
        exact = [i for i in matches if f"/{self.paths[i]}".endswith(end)]
        return exact or [i for i in matches if f"/{self.paths[i]}".casefold().endswith(end.casefold())] or matches

    def find_similar(self, image: str) -> str | None:
        """Return an image whose stem is equal except for case, or None."""
        stem = Path(image).stem.lower()
        return next((path for path in self.paths if Path(path).stem.lower() == stem), None)


def _match(all_captions: Sequence[Caption], images: CachedImages) -> MatchedCaptions:
    image_index = ImageIndex([images.classes[label] for label in images.labels.tolist()])
    captions: dict[int, list[str]] = defaultdict(list)
    splits: dict[str, dict[int, None]] = defaultdict(dict)
    missing: dict[str, None] = {}
    blank = 0
    for image, text, split in all_captions:
        matches = image_index.find(image)
        if len(matches) > 1:
            paths = " and ".join(image_index.paths[index] for index in matches[:2])
            raise DataError(f"the caption of {image!r} may belong to {paths}; include the folder of the image")
        if not matches:
            missing[image] = None
        elif not text.strip():
            blank += 1
        else:
            captions[matches[0]].append(text.strip())
            splits[split or ""][matches[0]] = None
    indices_by_split = {name: list(indices) for name, indices in splits.items()}
    return MatchedCaptions(dict(captions), indices_by_split, list(missing), blank)


def _remarks(matched: MatchedCaptions, images: CachedImages) -> list[str]:
    uncaptioned = [images.classes[label] for i, label in enumerate(images.labels) if i not in matched.captions]
    return [
        *summarize_names("images that have captions do not exist or cannot be read", matched.missing),
        *summarize_names("images have no caption and are ignored", uncaptioned),
        *([f"{matched.blank} captions are empty and are ignored"] if matched.blank else []),
    ]


def summarize_names(problem: str, names: Sequence[str]) -> list[str]:
    """Return a remark about images: their number, and the first names. No remark if there are none."""
    if not names:
        return []
    more = f" … and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return [f"{len(names)} {problem}: {', '.join(names[:MAX_LISTED_NAMES])}{more}"]


def _images(root: Path, target_shape: TargetShape) -> CachedImages:
    """Read every image below a folder, with its path as its class; later calls map the cache."""
    reader = ImageReader(target_shape)
    key = sha256(f"captions 1 {target_shape} {files_fingerprint(root)}".encode()).hexdigest()[:24]
    return load_or_build(reader, lambda: _records(root, reader), key=key, folder=cache_folder() / "images")


def _records(root: Path, reader: ImageReader) -> Iterator[Record]:
    problems: list[str] = []
    count = 0
    for entry in listing.list_images(root):
        name = entry.where.removeprefix(f"{root}/")
        try:
            opened = open_image(entry.source, name=name)
        except DataError as error:
            problems.append(str(error))
            continue
        count += 1
        for remark in opened.remarks:
            reader.remarks.add(remark, name)
        yield Record(None, name, reader.to_pixels(opened.image, name))
    if not count:
        raise DataError(problems[0] if problems else f"{root}: no images; provide PNG, JPEG … or archives of them")
    for line in summarize_names("images cannot be read and are ignored", problems):
        reader.remarks.add(line, str(root))
