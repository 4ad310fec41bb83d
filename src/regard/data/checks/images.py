"""Looks images over before they are trained on: what cannot be read, what is in two splits, classes and sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError
from regard.data.checks.findings import Finding
from regard.data.images import listing
from regard.data.images.image_files import LoadedImage, open_image
from regard.data.images.listing import Entry
from regard.data.images.loader import array_files, read_blocks

MAX_CLASS_RATIO = 10  # a class with so many times fewer images than the largest is out of balance
RARE_SIZE_SHARE = 0.05  # a size that fewer than this share of the images have is odd, where one size is the rule
COMMON_SIZE_SHARE = 0.5


class CheckedImage(NamedTuple):
    """What is kept of an image while the others are looked at."""

    entry: Entry
    size: tuple[int, int]
    digest: bytes


def check(path: Path) -> list[Finding]:
    """A folder or archive of images, or files of arrays -> what is wrong with them, file by file."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    findings: list[Finding] = []
    seen = list(scan_images(path, findings))
    if not seen and not findings:
        raise DataError(f"{path}: no images to check")
    findings += [*duplicate_images(seen), *_balance(seen, path), *unusual_sizes(seen)]
    return sorted(findings, key=lambda finding: (str(finding.file), finding.text))


def scan_images(path: Path, findings: list[Finding]) -> Iterator[CheckedImage]:
    """Every image that can be read; what cannot, and what has to be converted, is a finding."""
    try:
        for file in array_files(path):
            yield from _in_arrays(file)
        for entry in listing.list_images(path) if path.is_dir() or not array_files(path) else ():
            opened = _open(entry, findings)
            if opened is not None:
                size, digest = (opened.image.height, opened.image.width), _digest(opened.image.tobytes())
                yield CheckedImage(
                    entry._replace(source=b""), size, digest
                )  # the bytes of an archive's member are not kept
    except DataError as wrong:  # of a file as a whole: what comes after it cannot be looked at
        findings.append(Finding("error", "unreadable", path, 0, str(wrong).removeprefix(f"{path}: ")))


def _open(entry: Entry, findings: list[Finding]) -> LoadedImage | None:
    try:
        opened = open_image(entry.source, name=entry.where)
    except DataError as wrong:
        text = str(wrong).removeprefix(f"{entry.where}: ")
        kind = "truncated" if text.startswith("truncated") else "unreadable"
        findings.append(Finding("error", kind, Path(entry.where), 0, text))
        return None
    findings += [Finding("warning", "converted", Path(entry.where), 0, remark) for remark in opened.remarks]
    return opened


def _in_arrays(file: Path) -> Iterator[CheckedImage]:
    for block in read_blocks(file):
        labels = [None] * len(block.pixels) if block.labels is None else map(str, block.labels)
        for number, (label, pixels) in enumerate(zip(labels, block.pixels, strict=True)):
            entry = Entry(f"{block.where}:{number}", block.split, label, b"")
            yield CheckedImage(entry, (pixels.shape[0], pixels.shape[1]), _digest(pixels.tobytes()))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def duplicate_images(images: list[CheckedImage]) -> Iterator[Finding]:
    """Images that another split or another class has too."""
    first: dict[bytes, Entry] = {}
    for item in images:
        other = first.setdefault(item.digest, item.entry)
        if other is item.entry:
            continue
        if other.split != item.entry.split:
            yield Finding("warning", "repeated", Path(item.entry.where), 0, f"the same image is in {other.where}")
        elif other.label != item.entry.label:
            text = f"the same image is in {other.where}, as another class"
            yield Finding("warning", "ambiguous", Path(item.entry.where), 0, text)


def _balance(seen: list[CheckedImage], path: Path) -> Iterator[Finding]:
    counts = Counter(item.entry.label for item in seen if item.entry.label and item.entry.split in (None, "train"))
    most = max(counts.values(), default=0)
    for label, count in sorted(counts.items()):
        if count * MAX_CLASS_RATIO < most:
            text = f"class {label!r} has {count} images, where the largest has {most}"
            yield Finding("warning", "balance", path, 0, text)


def unusual_sizes(images: list[CheckedImage]) -> Iterator[Finding]:
    """Images of an odd size, where most have one and the same."""
    counts = Counter(item.size for item in images)
    rule, count = counts.most_common(1)[0] if counts else ((0, 0), 0)
    for item in images:
        if (
            count > COMMON_SIZE_SHARE * len(images)
            and counts[item.size] <= max(1, RARE_SIZE_SHARE * len(images))
            and item.size != rule
        ):
            text = f"{item.size[0]}x{item.size[1]} pixels, where {rule[0]}x{rule[1]} is the rule"
            yield Finding("warning", "size", Path(item.entry.where), 0, text)
