"""Check of captioned images: unmatched, unreadable and unusual images and captions."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.core.errors import DataError, pluralize
from regard.data.captions import files
from regard.data.captions.dataset import ImageIndex
from regard.data.captions.tables import Caption
from regard.data.checks import images
from regard.data.checks.findings import Finding
from regard.data.checks.images import CheckedImage
from regard.data.images.dataset import add_missing_splits

LONG_CAPTION_RATIO, LONG_CAPTION_WORDS = 10, 100  # a long caption has over 10 times the median, and over 100 words


def check(path: Path) -> list[Finding]:
    """Folder of images and captions, or caption file in the folder of its images -> findings."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    findings: list[Finding] = []
    root = path if path.is_dir() else path.parent
    all_captions = _read(path, findings)
    readable = list(images.scan_images(root, findings))
    unreadable = {str(finding.file).removeprefix(f"{root}/") for finding in findings if finding.level == "error"}
    names = ImageIndex([*(item.entry.where.removeprefix(f"{root}/") for item in readable), *sorted(unreadable)])
    split_by_image = _match_images(all_captions, names, findings, path)
    findings += _uncaptioned(readable, split_by_image) if all_captions else ()  # else the captions are unreadable
    findings += [*_blank(all_captions, path), *_long(all_captions, path), *_in_two_splits(all_captions, path)]
    findings += [*images.duplicate_images(_with_splits(readable, split_by_image)), *images.unusual_sizes(readable)]
    if all_captions and not any(caption.text.strip() for caption in all_captions):
        text = "all captions are empty; add captions for the images"
        findings.append(Finding("error", "empty", path, 0, text))
    if all(finding.level == "warning" for finding in findings):  # else training reports the errors first
        findings += _split_errors(readable, split_by_image, path)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def describe(path: Path) -> list[str]:
    """Return lines with the number of captions and images, and the first caption."""
    all_captions = files.read(path)
    num_images = len({caption.image for caption in all_captions})
    first = all_captions[0]
    return [
        f"{pluralize(len(all_captions), 'caption')} of {pluralize(num_images, 'image')}",
        *(remark.removeprefix(f"{path}: ") for remark in files.joined_remarks(path)),
        f"first caption: {first.image} -> {first.text[:100]}",
    ]


def _read(path: Path, findings: list[Finding]) -> list[Caption]:
    try:
        return files.read(path)
    except DataError as error:
        findings.append(Finding("error", "captions", path, 0, str(error).removeprefix(f"{path}: ")))
        return []


def _match_images(
    all_captions: Sequence[Caption], names: ImageIndex, findings: list[Finding], path: Path
) -> dict[int, str]:
    """Return the split of each captioned image by its index; unmatched captions are findings."""
    split_by_image: dict[int, str] = {}
    splits = {caption.image: caption.split or "" for caption in all_captions}
    for image, count in Counter(caption.image for caption in all_captions).items():
        matches = names.find(image)
        if len(matches) > 1:
            paths = " and ".join(names.paths[index] for index in matches[:2])
            text = f"the caption of {image!r} may belong to {paths}; include the folder of the image"
            findings.append(Finding("error", "ambiguous", path, 0, text))
        elif not matches:
            similar = names.find_similar(image)
            hint = f"; there is {similar!r}" if similar else ""
            text = f"{image!r} has {count} caption{'s' * (count > 1)}, but the image does not exist{hint}"
            findings.append(Finding("error", "missing", path, 0, text))
        else:
            split_by_image[matches[0]] = splits[image]
    return split_by_image


def _uncaptioned(checked: Sequence[CheckedImage], split_by_image: dict[int, str]) -> Iterator[Finding]:
    for index, item in enumerate(checked):
        if index not in split_by_image:
            yield Finding("warning", "silent", Path(item.entry.where), 0, "no caption; the image is ignored")


def _blank(all_captions: Sequence[Caption], path: Path) -> Iterator[Finding]:
    for image, count in Counter(caption.image for caption in all_captions if not caption.text.strip()).items():
        text = f"{image!r} has {count} empty caption{'s' * (count > 1)}, ignored"
        yield Finding("warning", "empty", path, 0, text)


def _long(all_captions: Sequence[Caption], path: Path) -> Iterator[Finding]:
    lengths = [len(caption.text.split()) for caption in all_captions]
    median = statistics.median(lengths) if lengths else 0
    for caption, length in zip(all_captions, lengths, strict=True):
        if length > max(LONG_CAPTION_RATIO * median, LONG_CAPTION_WORDS):
            text = f"a caption of {caption.image!r} has {length} words; the median is {median:.0f}"
            yield Finding("warning", "long", path, 0, text)


def _in_two_splits(all_captions: Sequence[Caption], path: Path) -> Iterator[Finding]:
    """Report images with captions in two splits, which leak test data into training."""
    splits: dict[str, dict[str, None]] = defaultdict(dict)
    for caption in all_captions:
        if caption.split:
            splits[caption.image][caption.split] = None
    for image, image_splits in splits.items():
        if len(image_splits) > 1:
            yield Finding("error", "splits", path, 0, f"{image!r} has captions in {' and in '.join(image_splits)}")


def _split_errors(checked: Sequence[CheckedImage], split_by_image: dict[int, str], path: Path) -> Iterator[Finding]:
    """Report the error that training would raise about the splits: too few images, or no training images."""
    indices: dict[str, list[int]] = defaultdict(list)
    for index, split in split_by_image.items():
        indices[split or "train"].append(index)
    keys = np.array([int.from_bytes(item.digest[:8], "little") for item in checked], np.uint64)
    try:
        add_missing_splits({split: np.array(part, np.int64) for split, part in indices.items()}, keys)
    except DataError as error:
        yield Finding("error", "splits", path, 0, str(error))


def _with_splits(checked: Sequence[CheckedImage], split_by_image: dict[int, str]) -> list[CheckedImage]:
    """Return the captioned images with the split of their captions; their folders are not classes."""
    return [
        item._replace(entry=item.entry._replace(split=split_by_image[index] or item.entry.split, label=None))
        for index, item in enumerate(checked)
        if index in split_by_image
    ]
