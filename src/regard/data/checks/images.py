"""Check of images: unreadable files, duplicates across splits, class balance and sizes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError, pluralize
from regard.data.checks.findings import Finding, read_error_finding
from regard.data.images import label_tables, listing
from regard.data.images.image_files import LoadedImage, open_image
from regard.data.images.label_tables import LabelTable
from regard.data.images.listing import Entry
from regard.data.images.loader import array_files, read_blocks

MAX_CLASS_RATIO = 10  # a class is rare if the largest has this many times as many images
RARE_SIZE_SHARE = 0.05  # a size is unusual below this share of the images, if most images have one size
COMMON_SIZE_SHARE = 0.5
RESIZED_SIDES = (64, 32)  # proposed sizes of images that differ in size: at most half of the usual side
MAX_LISTED_CLASSES = 8


class CheckedImage(NamedTuple):
    """Data of an image that is compared with other images."""

    entry: Entry
    size: tuple[int, int]
    digest: bytes


class CheckedImages(NamedTuple):
    """The readable images of a path, the table that labels them if there is one, and the findings."""

    path: Path
    images: list[CheckedImage]
    table: LabelTable | None
    findings: list[Finding]

    @property
    def has_classes(self) -> bool:
        """True if there are two classes to distinguish."""
        return len({item.entry.label for item in self.images} - {None}) > 1

    @property
    def size_settings(self) -> dict[str, int]:
        """Settings of the size to which images are resized; none if all have the same size."""
        if len({item.size for item in self.images}) < 2:
            return {}
        side = statistics.median(min(item.size) for item in self.images)
        size = next((size for size in RESIZED_SIDES if side >= 2 * size), RESIZED_SIDES[-1])
        return {"height": size, "width": size}


def check(path: Path) -> list[Finding]:
    """Folder or archive of images, or array files -> findings by file."""
    return examine(path).findings


def examine(path: Path) -> CheckedImages:
    """Folder or archive of images, or array files -> its images and the findings by file."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    findings: list[Finding] = []
    try:
        entries, table = listing.list_labeled_images(path)
    except DataError as error:
        return CheckedImages(path, [], None, [read_error_finding(error, path)])
    images = list(scan_images(path, findings, entries))
    if not images and not findings:
        raise DataError(f"{path}: no images to check")
    if table is not None:
        findings += _label_findings(images, table)
        images = [item for item in images if item.entry.label is not None]
    findings += [*duplicate_images(images), *_balance(images, path), *unusual_sizes(images)]
    return CheckedImages(path, images, table, sorted(findings, key=lambda finding: (str(finding.file), finding.text)))


def describe(checked: CheckedImages) -> list[str]:
    """Return lines with the number of images, their classes, and the first image."""
    labels = Counter(item.entry.label for item in checked.images if item.entry.label is not None)
    names = ", ".join(sorted(labels)[:MAX_LISTED_CLASSES])
    classes = f", {pluralize(len(labels), 'class')}: {names}" if labels else ", no classes"
    more = ", …" if len(labels) > MAX_LISTED_CLASSES else ""
    lines = [f"{pluralize(len(checked.images), 'image')}{classes}{more}"]
    if checked.table is not None:
        lines.append(f"classes from {checked.table.file}")
    if checked.images:
        first = checked.images[0]
        size = f"{first.size[0]}x{first.size[1]} pixels"
        label = f", class {first.entry.label}" if first.entry.label else ""
        lines.append(f"first image: {first.entry.where} ({size}{label})")
    return lines


def has_labeled_images(path: Path) -> bool:
    """Return True if images are labeled by a table next to them, or the path is such a table."""
    folder = path.parent if path.is_file() and label_tables.is_table_name(path) else path
    if not folder.is_dir() or not any(listing.is_image(file.name) for file in folder.rglob("*")):
        return False
    try:
        return listing.list_labeled_images(path)[1] is not None
    except DataError:
        return False


def _label_findings(images: list[CheckedImage], table: LabelTable) -> Iterator[Finding]:
    """Report images that the table does not label, and names without an image."""
    labeled = sum(item.entry.label is not None for item in images)
    for item in images:
        if item.entry.label is None:
            text = f"not in {table.file.name}; training skips it"
            yield Finding("warning", "unlabeled", Path(item.entry.where), 0, text)
    if not labeled:
        first = next(iter(table.labels), "")
        text = f"none of its images exists ({first!r} …); write the names of the files"
        yield Finding("error", "missing", table.file, 0, text)
    elif missing := table.missing_names(item.entry.where for item in images if item.entry.label is not None):
        text = label_tables.describe_missing(missing, len(table.labels))
        yield Finding("warning", "missing", table.file, 0, text)


def scan_images(path: Path, findings: list[Finding], entries: Iterator[Entry] | None = None) -> Iterator[CheckedImage]:
    """Yield every readable image; unreadable images and conversions are findings."""
    listed = listing.list_images(path) if entries is None else entries
    try:
        for file in array_files(path):
            yield from _in_arrays(file)
        for entry in listed if path.is_dir() or not array_files(path) else ():
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
