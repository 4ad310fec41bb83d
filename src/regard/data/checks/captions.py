"""Looks images and their captions over before they are trained on: what has no partner, cannot be read, or is odd."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.core.errors import DataError
from regard.data.captions import files
from regard.data.captions.dataset import ImageIndex
from regard.data.captions.tables import Caption
from regard.data.checks import images
from regard.data.checks.findings import Finding
from regard.data.checks.images import CheckedImage
from regard.data.images.dataset import add_missing_splits

LONG_CAPTION_RATIO, LONG_CAPTION_WORDS = (
    10,
    100,
)  # a caption is long if it has ten times the usual and at least 100 words


def check(path: Path) -> list[Finding]:
    """A folder of images and captions, or a file of captions beside its images -> what is wrong with them."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    findings: list[Finding] = []
    root = path if path.is_dir() else path.parent
    said = _read(path, findings)
    seen = list(images.scan_images(root, findings))
    broken = {str(finding.file).removeprefix(f"{root}/") for finding in findings if finding.level == "error"}
    names = ImageIndex([*(item.entry.where.removeprefix(f"{root}/") for item in seen), *sorted(broken)])
    owners = _owners(said, names, findings, path)
    findings += _silent(seen, owners) if said else ()  # else it is the captions that cannot be read
    findings += [*_blank(said, path), *_long(said, path), *_split_twice(said, path)]
    findings += [*images.duplicate_images(_in_splits(seen, owners)), *images.unusual_sizes(seen)]
    if said and not any(caption.text.strip() for caption in said):
        text = "all captions are empty; write what is to be said of the images"
        findings.append(Finding("error", "empty", path, 0, text))
    if all(finding.level == "warning" for finding in findings):  # else training says the others first
        findings += _few(seen, owners, path)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def _read(path: Path, findings: list[Finding]) -> list[Caption]:
    try:
        return files.read(path)
    except DataError as wrong:
        findings.append(Finding("error", "captions", path, 0, str(wrong).removeprefix(f"{path}: ")))
        return []


def _owners(said: Sequence[Caption], names: ImageIndex, findings: list[Finding], path: Path) -> dict[int, str]:
    """The images that are told of, by number, with their split; captions of others are findings."""
    owners: dict[int, str] = {}
    splits = {caption.image: caption.split or "" for caption in said}
    for image, count in Counter(caption.image for caption in said).items():
        rows = names.find(image)
        if len(rows) > 1:
            places = " and ".join(names.paths[row] for row in rows[:2])
            text = f"the caption of {image!r} may belong to {places}; give the folder of the image too"
            findings.append(Finding("error", "ambiguous", path, 0, text))
        elif not rows:
            like = names.find_similar(image)
            hint = f"; there is {like!r}" if like else ""
            text = f"{image!r} has {count} caption{'s' * (count > 1)}, but the image is not there{hint}"
            findings.append(Finding("error", "missing", path, 0, text))
        else:
            owners[rows[0]] = splits[image]
    return owners


def _silent(seen: Sequence[CheckedImage], owners: dict[int, str]) -> Iterator[Finding]:
    for row, item in enumerate(seen):
        if row not in owners:
            yield Finding("warning", "silent", Path(item.entry.where), 0, "no caption; the image is left out")


def _blank(said: Sequence[Caption], path: Path) -> Iterator[Finding]:
    for image, count in Counter(caption.image for caption in said if not caption.text.strip()).items():
        text = f"{image!r} has {count} caption{'s' * (count > 1)} without a word, left out"
        yield Finding("warning", "empty", path, 0, text)


def _long(said: Sequence[Caption], path: Path) -> Iterator[Finding]:
    lengths = [len(caption.text.split()) for caption in said]
    usual = statistics.median(lengths) if lengths else 0
    for caption, length in zip(said, lengths, strict=True):
        if length > max(LONG_CAPTION_RATIO * usual, LONG_CAPTION_WORDS):
            text = f"a caption of {caption.image!r} has {length} words, where {usual:.0f} are usual"
            yield Finding("warning", "long", path, 0, text)


def _split_twice(said: Sequence[Caption], path: Path) -> Iterator[Finding]:
    """Images that are told of in two splits: what is tested was learned."""
    splits: dict[str, dict[str, None]] = defaultdict(dict)
    for caption in said:
        if caption.split:
            splits[caption.image][caption.split] = None
    for image, own in splits.items():
        if len(own) > 1:
            yield Finding("error", "splits", path, 0, f"{image!r} has captions in {' and in '.join(own)}")


def _few(seen: Sequence[CheckedImage], owners: dict[int, str], path: Path) -> Iterator[Finding]:
    """What training would say of the splits: too few images to hold some out, or none to learn from."""
    given: dict[str, list[int]] = defaultdict(list)
    for row, split in owners.items():
        given[split or "train"].append(row)
    keys = np.array([int.from_bytes(item.digest[:8], "little") for item in seen], np.uint64)
    try:
        add_missing_splits({split: np.array(rows, np.int64) for split, rows in given.items()}, keys)
    except DataError as wrong:
        yield Finding("error", "splits", path, 0, str(wrong))


def _in_splits(seen: Sequence[CheckedImage], owners: dict[int, str]) -> list[CheckedImage]:
    """The images with the split that their captions are in; folders are no classes here."""
    return [
        item._replace(entry=item.entry._replace(split=owners[row] or item.entry.split, label=None))
        for row, item in enumerate(seen)
        if row in owners
    ]
