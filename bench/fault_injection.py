"""A shim under Python's file functions that simulates a crash at a chosen operation.

It counts the operations on files below a folder. At the chosen one it kills the process, loses the power, fills the
disk or makes it read-only. After a power loss, unflushed data (fsync of a file for its content, of a folder for its
names) may exist, be missing or be torn. The shim stores all flushed data. `lose_power` builds a disk from these data
and from the final files, with random choices.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import random
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

KILL, POWER, FULL, READ_ONLY = "kill", "power loss", "full disk", "read-only disk"
ERRORS = {FULL: (errno.ENOSPC, "No space left on device"), READ_ONLY: (errno.EROFS, "Read-only file system")}
REAL = {name: getattr(os, name) for name in ("open", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir")}
OPEN = io.open


class Shim:
    """Counter of file operations, installed once in a process."""

    def __init__(self, root: Path, *, at: int | None = None, then: str = KILL, store: Path | None = None) -> None:
        self.root, self.at, self.then, self.store = str(root), at, then, store
        self.count, self.failing = 0, False
        self.keys: dict[int, int] = {}  # inode -> a number of its own (inodes are used again)
        self.contents: dict[int, str] = {}  # number -> the file in the store with its flushed content
        self.names: dict[int, dict[str, int]] = {}  # number of a folder -> its flushed names
        if store is not None:
            self._note(Path(root), all_below=True)

    def install(self) -> None:
        """Replace the file functions, so that the shim sees every later operation below the folder."""
        builtins.open = io.open = self.file  # type: ignore[assignment]
        os.open = self.open_handle  # type: ignore[assignment]
        os.fsync = self.fsync  # type: ignore[assignment]
        for name in ("replace", "rename", "unlink", "mkdir", "rmdir"):
            setattr(os, name, self._plain(name))
        os.remove = os.unlink

    def _mine(self, path: Any) -> bool:
        return not isinstance(path, int) and os.path.abspath(os.fspath(path)).startswith(self.root)

    def step(self, name: str, torn: Any = None) -> None:
        """Count an operation; at the chosen one, fail, kill the process or lose the power."""
        self.count += 1
        if self.failing or (self.count == self.at and self.then in ERRORS):
            self.failing = True
            if name not in ("unlink", "rmdir", "flush") or self.then == READ_ONLY:
                raise OSError(*ERRORS[self.then])
        elif self.count == self.at:
            if torn is not None:
                torn()
            if self.store is not None:
                self._dump()
            os.kill(os.getpid(), signal.SIGKILL)

    def _plain(self, name: str) -> Any:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            folder = named.get("dir_fd")
            above = "" if folder is None else os.readlink(f"/proc/self/fd/{folder}")
            if self._mine(os.path.join(above, os.fspath(path))):
                self.step(name)
            return REAL[name](path, *rest, **named)

        return call

    def open_handle(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if self._mine(path) and flags & (os.O_CREAT | os.O_TRUNC):
            self.step("open")
        new = self._mine(path) and not os.path.exists(path)
        handle: int = REAL["open"](path, flags, *rest, **named)
        if new and self.store is not None:
            self._number(os.fstat(handle).st_ino, new=True)
        return handle

    def fsync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        if not path.startswith(self.root):
            return REAL["fsync"](handle)
        self.step("fsync")
        if self.store is not None:
            self._note(Path(path))
        return None  # the disk itself need not be waited for: only the simulated disk loses its power

    def file(self, path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        plain = OPEN(path, mode, *rest, **named) if not set(mode) & set("wax+") else None
        if plain is not None:
            return plain
        if isinstance(path, int):
            is_watched = os.readlink(f"/proc/self/fd/{path}").startswith(self.root)
        else:
            is_watched = self._mine(path)
            if is_watched and not set(mode) <= set("r+b"):
                self.step("open")
        new = is_watched and not isinstance(path, int) and not os.path.exists(path)
        opened = OPEN(path, mode, *rest, **named)
        if new and self.store is not None:
            self._number(os.fstat(opened.fileno()).st_ino, new=True)
        return Watched(opened, self) if is_watched else opened

    def _number(self, inode: int, *, new: bool = False) -> int:
        if new or inode not in self.keys:
            self.keys[inode] = len(self.keys) + len(self.contents) + len(self.names) + 1_000_000 * (self.count + 1)
        return self.keys[inode]

    def _note(self, path: Path, *, all_below: bool = False) -> None:
        """Store a path as flushed: the content of a file, or the names in a folder."""
        facts = os.lstat(path)
        key = self._number(facts.st_ino)
        if stat.S_ISDIR(facts.st_mode):
            children = list(os.scandir(path))
            self.names[key] = {child.name: self._number(child.inode()) for child in children}
            for child in children if all_below else ():
                self._note(Path(child.path), all_below=True)
        elif self.store is not None:
            copy = self.store / f"{key}-{self.count}"
            with OPEN(path, "rb") as source, OPEN(copy, "wb") as target:
                target.write(source.read())
            self.contents[key] = copy.name

    def _dump(self) -> None:
        table = {"keys": self.keys, "contents": self.contents, "names": self.names}
        with OPEN(self.store / "disk.json", "w") as file:
            file.write(json.dumps(table))


class Watched:
    """File whose writes are counted; the chosen write is done half."""

    def __init__(self, file: Any, shim: Shim) -> None:
        self._file, self._shim = file, shim

    def write(self, data: Any) -> int:
        def half() -> None:
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        self._shim.step("write", torn=half)
        return self._file.write(data)

    def truncate(self, *size: int) -> int:
        self._shim.step("truncate")
        return self._file.truncate(*size)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def lose_power(root: Path, store: Path, rng: random.Random) -> bool:
    """Put the disk as it may look after the power failed in place of what is there; whether anything was lost."""
    table = json.loads((store / "disk.json").read_text())
    keys = {int(inode): number for inode, number in table["keys"].items()}
    contents = {int(number): name for number, name in table["contents"].items()}
    names = {int(number): children for number, children in table["names"].items()}
    at_the_end = {}  # number -> where it was
    for path in (root, *root.rglob("*")):
        at_the_end[keys.get(os.lstat(path).st_ino, -os.lstat(path).st_ino)] = path
    by_path = {path: number for number, path in at_the_end.items()}
    lost = False

    def build(number: int, target: Path) -> None:
        nonlocal lost
        here = at_the_end.get(number)
        if number in names or (here is not None and here.is_dir()):
            target.mkdir()
            flushed = names.get(number, {})
            last = (
                {child.name: by_path[child] for child in here.iterdir()} if here is not None and here.is_dir() else {}
            )
            for name in sorted({*flushed, *last}):
                options = [state.get(name) for state in (flushed, last)]
                chosen = rng.choice(options)
                lost |= chosen != last.get(name)
                if chosen is not None:
                    build(chosen, target / name)
            return
        whole = here.read_bytes() if here is not None and here.is_file() else None
        saved = (store / contents[number]).read_bytes() if number in contents else b""
        options = [saved] if whole is None or whole == saved else [saved, whole, torn(whole, len(saved), rng)]
        content = rng.choice(options)
        lost |= content != whole
        target.write_bytes(content)

    disk = root.with_name(f"{root.name}-after")
    build(by_path[root], disk)
    shutil.rmtree(root)
    disk.rename(root)
    return lost


def torn(content: bytes, flushed: int, rng: random.Random) -> bytes:
    """Return content whose end is missing or zero."""
    cut = rng.randint(min(flushed, len(content)), len(content))
    return content[:cut] + (bytes(len(content) - cut) if rng.random() < 0.5 else b"")
