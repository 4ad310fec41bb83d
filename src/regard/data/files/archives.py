"""Text files of a folder or of a tar or zip archive, behind one interface."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError
from regard.data.examples import ARCHIVE_SUFFIXES, COMPRESSED_SUFFIXES
from regard.data.files.text_files import decode_text, open_compressed, read_limited

ARCHIVE_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
)


class TextFile(NamedTuple):
    """A text file of a folder or archive."""

    parts: tuple[str, ...]  # path inside the folder: ("train", "pos", "17.txt")
    text: str
    location: str  # name in error messages


def is_archive(path: Path) -> bool:
    """Return True if a file is an archive by its name."""
    return path.is_file() and path.name.endswith(ARCHIVE_SUFFIXES)


def read_text_files(path: Path) -> Iterator[TextFile]:
    """Folder or archive -> its text files, sorted by name (a tar file in its own order)."""
    for name, content in _in_folder(path) if path.is_dir() else _in_archive(path):
        location = f"{path}/{name}" if path.is_dir() else f"{path}:{name}"
        yield TextFile(tuple(name.split("/")), decode_text(content, location), location)


def list_text_files(path: Path) -> list[str]:
    """Folder or archive -> the names of its text files, without reading them."""
    if path.is_dir():
        return [
            file.relative_to(path).as_posix()
            for file in sorted(path.rglob("*"))
            if _is_text(_strip_compression(file.name))
        ]
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as zip_file:
                return sorted(filter(_is_text, zip_file.namelist()))
        with tarfile.open(path) as archive:
            return [member.name for member in archive if member.isfile() and _is_text(member.name)]
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def _strip_compression(name: str) -> str:
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _is_text(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.endswith(".txt") and not last.startswith(".")


def _in_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    for name in list_text_files(path):
        file = path / name
        try:
            with open_compressed(file) as opened:
                yield name, read_limited(opened)
        except ARCHIVE_ERRORS as error:
            raise DataError(f"{file}: cannot be read: {error}") from None


def _in_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as zip_file:
                for name in sorted(filter(_is_text, zip_file.namelist())):
                    with zip_file.open(name) as member_file:
                        yield name, read_limited(member_file)
            return
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() and _is_text(member.name) else None
                if file is not None:
                    yield member.name, read_limited(file)
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
