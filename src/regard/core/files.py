"""Atomic file writes: write to a temporary file next to the target, flush it to disk, move it into place.

Nothing is written through a link.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import ConfigError, FileError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe without a writer would block forever
_BINARY = getattr(os, "O_BINARY", 0)
_MIN_ABANDONED_S = 60.0  # age in seconds from which a draft without a lock is abandoned
_MAX_NAME_CHARACTERS = 50  # of the target's name in the temporary name: file systems allow 255 bytes in total


def cache_folder() -> Path:
    """Return the folder for downloads, encoded corpora and exports: $REGARD_CACHE, or ~/.cache/regard."""
    if "REGARD_DATA" in os.environ and "REGARD_CACHE" not in os.environ:
        raise ConfigError("the environment variable REGARD_DATA was renamed; set REGARD_CACHE instead")
    return Path(os.environ.get("REGARD_CACHE") or Path.home() / ".cache" / "regard").expanduser()


class FileState(NamedTuple):
    """Inode, size and times of a file. The time of the last status change cannot be set by a program."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a new, empty file next to `path` to write to; it is moved to `path` afterwards, or removed after an error.

    The temporary name is unique, so that two processes never write to the same file.
    """
    part = _draft_path(path)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666))
        with lock_draft(part):
            yield part
            fsync(part)
            os.replace(part, path)
        fsync(path.parent)
    except OSError as error:
        reason = error.strerror or error
        raise FileError(f"{path}: could not be written ({reason}); the previous content is unchanged") from error
    finally:
        with suppress(OSError):  # stays if the folder became read-only; it is never read, and removed on resuming
            part.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a new folder next to `path` to fill; it is moved to `path` afterwards, or removed if anything failed.

    All files are flushed to the disk before the move. If another process has created `path` in the meantime, its folder
    stays, unless `replace` is set.
    """
    try:
        with draft_folder(path) as draft:
            yield draft
            flush_folder(draft)
            if replace:
                shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                with suppress(FileExistsError):  # created by another process since the check
                    os.replace(draft, path)
        fsync(path.parent)
    except OSError as error:
        raise FileError(f"{path}: could not be written ({error.strerror or error})") from error


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """Yield a new, locked folder next to `path`; it is removed at the end, unless it was moved.

    If the process is killed, the next process that creates `path` removes it.
    """
    draft = _draft_path(path)
    try:
        draft.mkdir(parents=True)
        with lock_draft(draft):
            yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def flush_folder(folder: Path) -> None:
    """Flush all files and lists of names of a folder to the disk."""
    for path in (*folder.rglob("*"), folder):
        fsync(path)


def _draft_path(path: Path) -> Path:
    """Return a new name next to `path`; the drafts of `path` that killed processes have left are removed."""
    prefix = f".{path.name[:_MAX_NAME_CHARACTERS]}."
    with suppress(OSError):
        names = [name for name in os.listdir(path.parent) if name.startswith(prefix) and name.endswith(".part")]
        for name in names:
            _remove_abandoned(path.parent / name)
    return path.with_name(f"{prefix}{secrets.token_hex(4)}.part")


@contextmanager
def lock_draft(draft: Path) -> Iterator[None]:
    """Lock a draft. The system releases the lock when the process ends, so that a draft without one is abandoned."""
    if sys.platform == "win32":  # without flock, abandoned drafts remain
        yield
        return
    import fcntl

    handle = os.open(draft, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _remove_abandoned(draft: Path) -> None:
    """Remove a draft that no process has locked, if it is old enough to have been locked by now."""
    if sys.platform == "win32" or draft.is_symlink() or time.time() - draft.stat().st_mtime < _MIN_ABANDONED_S:
        return
    import fcntl

    handle = os.open(draft, os.O_RDONLY | _NO_LINK | _NO_WAIT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)
    except BlockingIOError:
        return  # in use
    finally:
        os.close(handle)


def fsync(path: Path) -> None:
    """Flush a file's content, or a folder's list of names, to the disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes to a file atomically: after an error the file is unchanged. Missing folders are created."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path}: could not be written ({error.strerror})") from None
    with atomic_write(path) as part:
        part.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write text to a file atomically, as UTF-8."""
    write_bytes(path, text.encode())


def append_bytes(path: Path, data: bytes) -> None:
    """Append bytes to a file, which is created if it does not exist."""
    with wrap_write_errors(path), open_for_update(path) as file:
        file.seek(0, os.SEEK_END)
        file.write(data)


@contextmanager
def wrap_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a FileError that names the file."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{path}: could not be written ({error.strerror}); the previous content is unchanged"
        ) from error


def open_for_update(path: Path) -> io.BufferedRandom:
    """Open a file for reading and writing in place; create it if it does not exist.

    Symbolic links are refused. A file with several hard links is replaced by a copy first, so that the content under
    its other names does not change.
    """
    if path.is_symlink():
        raise FileError(f"{path}: a link; nothing in a run is written through a link: put a plain file in its place")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK | _NO_WAIT | _BINARY, 0o666)
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return os.fdopen(handle, "r+b")
    os.close(handle)
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path}: not a plain file; put one in its place")
    with atomic_write(path) as part:
        shutil.copyfile(path, part)
    return open_for_update(path)


def open_regular(path: Path) -> io.BufferedReader:
    """Open an existing regular file for reading; a pipe, a device or a folder is an OSError."""
    handle = os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file")
    return os.fdopen(handle, "rb")


def file_state(path: Path) -> FileState | None:
    """Return values that change whenever a file is replaced or written; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
