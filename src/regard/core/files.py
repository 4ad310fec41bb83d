"""Files that are whole or not there: written beside, flushed to disk, moved into place. Nothing goes through a link."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.core.errors import ConfigError, FileError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe that nobody writes to would wait for ever
_BINARY = getattr(os, "O_BINARY", 0)
_LONGEST = 50  # characters of a name that are kept in the name of the file beside it: systems allow 255 bytes in all


def cache_folder() -> Path:
    """Return the folder for downloads, encoded corpora and exports: $REGARD_CACHE, or ~/.cache/regard."""
    if "REGARD_DATA" in os.environ and "REGARD_CACHE" not in os.environ:
        raise ConfigError("the environment variable REGARD_DATA was renamed; set REGARD_CACHE instead")
    return Path(os.environ.get("REGARD_CACHE") or Path.home() / ".cache" / "regard").expanduser()


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path` to write to; afterwards it is flushed and moved there, or removed if anything
    failed. Its name is its own, so that two processes never write to the same one."""
    part = path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666))
        yield part
        fsync(part)
        os.replace(part, path)
        fsync(path.parent)
    except OSError as wrong:
        reason = wrong.strerror or wrong
        raise FileError(f"{path}: could not be written ({reason}); what was there before is untouched") from wrong
    finally:
        with suppress(OSError):  # in a folder that became read-only it stays; it is never read, and removed on resuming
            part.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a new folder next to `path` to fill; it is moved to `path` afterwards, or removed if anything failed.

    If another process has created `path` in the meantime, its folder stays, unless `replace` is set.
    """
    draft = path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(4)}.part")
    try:
        draft.mkdir(parents=True)
        yield draft
        if replace:
            shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            with suppress(FileExistsError):  # created by another process since the check
                os.replace(draft, path)
    except OSError as error:
        raise FileError(f"{path}: could not be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def fsync(path: Path) -> None:
    """Make sure that a file's content, or a folder's list of names, is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Put bytes into a file at once: all of them, or the file stays as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise FileError(f"{path}: could not be written ({wrong.strerror})") from None
    with atomic_write(path) as part:
        part.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """The same for text, as UTF-8."""
    write_bytes(path, text.encode())


def append_bytes(path: Path, data: bytes) -> None:
    """More bytes at the end of a log; the file is made if it is not there."""
    with wrap_write_errors(path), open_for_update(path) as file:
        file.seek(0, os.SEEK_END)
        file.write(data)


@contextmanager
def wrap_write_errors(path: Path) -> Iterator[None]:
    """What the system says while a file is changed becomes one line that names the file."""
    try:
        yield
    except OSError as wrong:
        raise FileError(
            f"{path}: could not be written ({wrong.strerror}); what was there before is untouched"
        ) from wrong


def open_for_update(path: Path) -> io.BufferedRandom:
    """A file to read and to write to in place, made if it is not there. A link is refused; of a file that has several
    names (a hard link) a copy takes the place of this one, so that the others keep their content."""
    if path.is_symlink():
        raise FileError(f"{path}: a link; nothing in a run is written through a link: put a plain file in its place")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK | _NO_WAIT | _BINARY, 0o666)
    facts = os.fstat(handle)
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
        return os.fdopen(handle, "r+b")
    os.close(handle)
    if not stat.S_ISREG(facts.st_mode):
        raise FileError(f"{path}: not a plain file; put one in its place")
    with atomic_write(path) as part:
        shutil.copyfile(path, part)
    return open_for_update(path)


def open_regular(path: Path) -> io.BufferedReader:
    """An existing file to read from; what is no plain file (a pipe, a device, a folder) is an OSError."""
    handle = os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file")
    return os.fdopen(handle, "rb")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file as it stands."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
