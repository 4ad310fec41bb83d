"""Check of images: unreadable files, duplicates across splits, class balance and sizes."""

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

MAX_CLASS_RATIO = 10  # a class is rare if the largest has this many times as many images
RARE_SIZE_SHARE = 0.05  # a size is unusual below this share of the images, if most images have one size
COMMON_SIZE_SHARE = 0.5


class CheckedImage(NamedTuple):
    """Data of an image that is compared with other images."""

    entry: Entry
    size: tuple[int, int]
    digest: bytes


def check(path: Path) -> list[Finding]:
    """Folder or archive of images, or array files -> findings by file."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    findings: list[Finding] = []
    images = list(scan_images(path, findings))
    if not images and not findings:
        raise DataError(f"{path}: no images to check")
    findings += [*duplicate_images(images), *_balance(images, path), *unusual_sizes(images)]
    return sorted(findings, key=lambda finding: (str(finding.file), finding.text))


def scan_images(path: Path, findings: list[Finding]) -> Iterator[CheckedImage]:
    """Yield every readable image; unreadable images and conversions are findings."""
    try:
        for file in array_files(path):
            yield from _in_arrays(file)
        for entry in listing.list_images(path) if path.is_dir() or not array_files(path) else ():
            opened = _open(entry, findings)
            if opened is not None:
                size, digest = (opened.image.height, opened.image.width), _digest(opened.image.tobytes())
                yield CheckedImage(entry._replace(source=b""), size, digest)  # drop the bytes of an archive's member
    except DataError as error:  # of an entire file: the images after it are not checked
        findings.append(Finding("error", "unreadable", path, 0, str(error).removeprefix(f"{path}: ")))


def _open(entry: Entry, findings: list[Finding]) -> LoadedImage | None:
    try:
        opened = open_image(entry.source, name=entry.where)
    except DataError as error:
        text = str(error).removeprefix(f"{entry.where}: ")
        kind = "truncated" if text.startswith("truncated") else "unreadable"
        findings.append(Finding("error", kind, Path(entry.where), 0, text))
        return None
    findings += [Finding("warning", "converted", Path(entry.where), 0, remark) for remark in opened.remarks]
    return opened


def _in_arrays(file: Path) -> Iterator[CheckedImage]:
    for block in read_blocks(file):
        labels = [None] * len(block.pixels) if block.labels is None else map(str, block.labels)
        for index, (label, pixels) in enumerate(zip(labels, block.pixels, strict=True)):
            entry = Entry(f"{block.where}:{index}", block.split, label, b"")
            yield CheckedImage(entry, (pixels.shape[0], pixels.shape[1]), _digest(pixels.tobytes()))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def duplicate_images(images: list[CheckedImage]) -> Iterator[Finding]:
    """Report images that are also in another split or class."""
    entries: dict[bytes, Entry] = {}
    for item in images:
        first = entries.setdefault(item.digest, item.entry)
        if first is item.entry:
            continue
        if first.split != item.entry.split:
            yield Finding("warning", "repeated", Path(item.entry.where), 0, f"the same image is in {first.where}")
        elif first.label != item.entry.label:
            text = f"the same image is in {first.where}, as another class"
            yield Finding("warning", "ambiguous", Path(item.entry.where), 0, text)


def _balance(images: list[CheckedImage], path: Path) -> Iterator[Finding]:
    counts = Counter(item.entry.label for item in images if item.entry.label and item.entry.split in (None, "train"))
    max_count = max(counts.values(), default=0)
    for label, count in sorted(counts.items()):
        if count * MAX_CLASS_RATIO < max_count:
            text = f"class {label!r} has {count} images; the largest class has {max_count}"
            yield Finding("warning", "balance", path, 0, text)


def unusual_sizes(images: list[CheckedImage]) -> Iterator[Finding]:
    """Report images of an unusual size, if most images have the same size."""
    counts = Counter(item.size for item in images)
    common_size, count = counts.most_common(1)[0] if counts else ((0, 0), 0)
    for item in images:
        if (
            count > COMMON_SIZE_SHARE * len(images)
            and counts[item.size] <= max(1, RARE_SIZE_SHARE * len(images))
            and item.size != common_size
        ):
            text = f"{item.size[0]}x{item.size[1]} pixels; most images have {common_size[0]}x{common_size[1]}"
            yield Finding("warning", "size", Path(item.entry.where), 0, text)
