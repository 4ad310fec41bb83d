"""Iterate over the image files of a folder or an archive, with the class and the split taken from their paths.

Paths are `train/cat/1.png`, `cat/1.png` or `1.png`, in folders, in archives (.zip, .tar, .tar.gz, .tar.xz), or in
archives in folders. Nothing is unpacked to disk.
"""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from regard.core.errors import DataError
from regard.data.examples import SPLIT_ALIASES, split_of
from regard.data.images import label_tables
from regard.data.images.image_files import SUFFIXES
from regard.data.images.label_tables import LabelTable

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
ARCHIVE_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
)  # RuntimeError includes NotImplementedError
SNIFF_NAMES = 100  # file names of a tar archive that are checked for images
MAX_IMAGE_BYTES = 2**28  # of one image file inside an archive; larger members are decompression bombs


class Entry(NamedTuple):
    """An image file, with split and class if its path names them."""

    where: str  # name in messages
    split: str | None
    label: str | None
    source: Path | bytes  # bytes if it is inside an archive


def is_image(name: str) -> bool:
    """Return True if the file name has the suffix of an image."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES


def is_archive(path: Path) -> bool:
    """Return True if the file name has the suffix of a supported archive."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def has_images(archive: Path) -> bool:
    """Return True if an image is among the first names of an archive; False for a damaged archive."""
    try:
        if archive.suffix.lower() == ".zip":
            with zipfile.ZipFile(archive) as zip_file:
                return any(map(is_image, zip_file.namelist()))
        with tarfile.open(archive) as tar_file:
            return any(is_image(member.name) for member in islice(tar_file, SNIFF_NAMES))
    except ARCHIVE_ERRORS:
        return False


def list_images(path: Path) -> Iterator[Entry]:
    """Yield every image of a folder, an archive or a single file; folders are sorted by name."""
    if path.is_dir():
        _check_class_folders(path)
        for file in sorted(path.rglob("*")):
            inner = PurePosixPath(file.relative_to(path).as_posix())
            if _is_hidden(inner):
                continue
            if file.is_file() and is_image(file.name):
                yield Entry(str(file), *_split_and_label(inner), file)
            elif file.is_file() and is_archive(file):
                yield from _archive_entries(file)
    elif is_archive(path):
        yield from _archive_entries(path)
    else:
        yield Entry(str(path), None, None, path)


def list_labeled_images(path: Path) -> tuple[Iterator[Entry], LabelTable | None]:
    """Return the images of a path, and the table that labels them if they are not in class folders.

    The path may be the table itself. An image that is not in the table is yielded without a class.
    """
    is_table = path.is_file() and label_tables.is_table_name(path)
    root = path.parent if is_table else path
    if not root.is_dir() or (not is_table and _has_class_folders(root)):
        return list_images(path), None
    table = label_tables.find_table(path)
    if table is None and is_table:
        raise DataError(f"{path}: no table of labels; it needs a column of image names and a column of classes")
    return (list_images(root), None) if table is None else (_with_labels(root, table), table)


def _has_class_folders(root: Path) -> bool:
    """Return True if images are in two or more folders that are not named after splits."""
    inner = (file.relative_to(root) for file in root.rglob("*") if is_image(file.name))
    labels = {_split_and_label(PurePosixPath(path.as_posix()))[1] for path in inner if not _is_hidden(path)}
    return len(labels - {None}) > 1


def _with_labels(root: Path, table: LabelTable) -> Iterator[Entry]:
    for entry in list_images(root):
        inner = PurePosixPath(Path(entry.where).relative_to(root).as_posix())
        match = table.find(str(inner))
        yield entry._replace(label=None if match is None else match.label, split=(match and match.split) or entry.split)


def _is_hidden(inner: PurePath) -> bool:
    """Return True for files that programs create: .git/…, .thumbnails/…, ._x.png on a Mac."""
    return any(part.startswith(".") or part == "__MACOSX" for part in inner.parts)


def _split_and_label(inner: PurePosixPath) -> tuple[str | None, str | None]:
    """Path below the root -> (split, class): the first folder named after a split, and the last folder otherwise."""
    folders = inner.parts[:-1]
    split = next((SPLIT_ALIASES[part.lower()] for part in folders if part.lower() in SPLIT_ALIASES), None)
    label = folders[-1] if folders and folders[-1].lower() not in SPLIT_ALIASES else None
    return split, label


def _check_class_folders(path: Path) -> None:
    """Raise a DataError if a folder is empty: it would be a class without an example."""
    for folder in sorted(item for item in path.rglob("*") if item.is_dir()):
        if not _is_hidden(folder.relative_to(path)) and not any(folder.iterdir()):
            raise DataError(f"{folder}: a class folder without images; add images, or delete the folder")


def _archive_entries(path: Path) -> Iterator[Entry]:
    archive_split = split_of(path.name.split(".")[0])
    for name, data in _members(path):
        split, label = _split_and_label(PurePosixPath(name))
        yield Entry(f"{path}/{name}", split or archive_split, label, data)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of the images in an archive; paths outside the archive are an error."""
    try:
        yield from (_zip_members if path.suffix.lower() == ".zip" else _tar_members)(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except ARCHIVE_ERRORS as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: damaged, or not an archive ({reason}); download it again") from None


def _zip_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir() and _is_readable_image(path, member.filename, member.file_size):
                yield member.filename, archive.read(member)


def _tar_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if not member.isdir() and _is_readable_image(path, member.name, member.size):
                file = archive.extractfile(member) if member.isfile() else None
                if file is None:
                    raise DataError(f"{path}: {member.name!r} is a link, which is not followed; pack the file itself")
                yield member.name, file.read()


def _is_readable_image(path: Path, name: str, size: int) -> bool:
    inner = PurePosixPath(name.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or ":" in inner.parts[0]:
        raise DataError(f"{path}: {name!r} points outside the archive; the archive is not read")
    if not is_image(name) or inner.name.startswith("._"):  # macOS adds ._x.png
        return False
    if size > MAX_IMAGE_BYTES:
        raise DataError(
            f"{path}: {name!r} has {size:,} bytes; the limit is {MAX_IMAGE_BYTES:,}; the archive is not read"
        )
    return True
