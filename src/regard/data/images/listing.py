"""The image files of a folder or an archive, each with the class and the split that its path says.

`train/cat/1.png`, `cat/1.png` or `1.png`, in folders, in archives (.zip, .tar, .tar.gz, .tar.xz), or in archives in
folders. Nothing is unpacked to disk.
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
from regard.data.images.image_files import SUFFIXES

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
ARCHIVE_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
)  # NotImplementedError is one
SNIFF_NAMES = 100  # names of an archive that are looked at to know what it holds
MAX_IMAGE_BYTES = 2**28  # bytes of one image file inside an archive: more is no image but a trap


class Entry(NamedTuple):
    """An image file."""

    where: str  # what a message calls it
    split: str | None
    label: str | None
    source: Path | bytes  # the bytes where it is inside an archive


def is_image(name: str) -> bool:
    """Whether a file's name is that of an image."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES


def is_archive(path: Path) -> bool:
    """Whether a file is an archive that may hold images."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def has_images(archive: Path) -> bool:
    """Whether there is an image among the first names of an archive; of a damaged one nobody knows."""
    try:
        if archive.suffix.lower() == ".zip":
            with zipfile.ZipFile(archive) as packed:
                return any(map(is_image, packed.namelist()))
        with tarfile.open(archive) as file:
            return any(is_image(member.name) for member in islice(file, SNIFF_NAMES))
    except ARCHIVE_ERRORS:
        return False


def list_images(path: Path) -> Iterator[Entry]:
    """Every image of a folder, an archive or a single file, in the order of names."""
    if path.is_dir():
        _check_class_folders(path)
        for file in sorted(path.rglob("*")):
            inner = PurePosixPath(file.relative_to(path).as_posix())
            if _is_hidden(inner):
                continue
            if file.is_file() and is_image(file.name):
                yield Entry(str(file), *_told_by(inner), file)
            elif file.is_file() and is_archive(file):
                yield from _packed(file)
    elif is_archive(path):
        yield from _packed(path)
    else:
        yield Entry(str(path), None, None, path)


def _is_hidden(inner: PurePath) -> bool:
    """Whether a path below the root is one that programs put there: .git/…, .thumbnails/…, a Mac's ._x.png."""
    return any(part.startswith(".") or part == "__MACOSX" for part in inner.parts)


def _told_by(inner: PurePosixPath) -> tuple[str | None, str | None]:
    """A path below the root -> split and class: the folders that are named after one, and the last of the others."""
    folders = inner.parts[:-1]
    split = next((SPLIT_ALIASES[part.lower()] for part in folders if part.lower() in SPLIT_ALIASES), None)
    label = folders[-1] if folders and folders[-1].lower() not in SPLIT_ALIASES else None
    return split, label


def _check_class_folders(path: Path) -> None:
    """A folder without anything in it, beside others that have images, is a class without an example."""
    for folder in sorted(item for item in path.rglob("*") if item.is_dir()):
        if not _is_hidden(folder.relative_to(path)) and not any(folder.iterdir()):
            raise DataError(f"{folder}: a class folder without an image; put some there, or delete the folder")


def _packed(path: Path) -> Iterator[Entry]:
    own = split_of(path.name.split(".")[0])
    for name, data in _members(path):
        split, label = _told_by(PurePosixPath(name))
        yield Entry(f"{path}/{name}", split or own, label, data)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the images in an archive; a path that leads out of it is refused."""
    try:
        yield from (_in_zip if path.suffix.lower() == ".zip" else _in_tar)(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except ARCHIVE_ERRORS as wrong:
        reason = str(wrong).partition("\n")[0]
        raise DataError(f"{path}: damaged, or no archive ({reason}); get it again") from None


def _in_zip(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir() and _wanted(path, member.filename, member.file_size):
                yield member.filename, archive.read(member)


def _in_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if not member.isdir() and _wanted(path, member.name, member.size):
                file = archive.extractfile(member) if member.isfile() else None
                if file is None:
                    raise DataError(f"{path}: {member.name!r} is a link, which may lead anywhere; pack the file itself")
                yield member.name, file.read()


def _wanted(path: Path, name: str, size: int) -> bool:
    inner = PurePosixPath(name.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or ":" in inner.parts[0]:
        raise DataError(f"{path}: {name!r} leads out of the archive; nothing of it is read")
    if not is_image(name) or inner.name.startswith("._"):  # ._x.png is what a Mac adds
        return False
    if size > MAX_IMAGE_BYTES:
        raise DataError(f"{path}: {name!r} has {size:,} bytes, more than any image here; nothing of it is read")
    return True
