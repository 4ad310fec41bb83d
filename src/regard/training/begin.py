"""The folder of a new run: it appears at once with all its files, or not at all, and never over something else."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from regard.core.errors import CheckpointError, FileError
from regard.core.files import flush
from regard.training.folder import Folder, locked, remove


def check_free(path: Path) -> None:
    """A run can be made in this folder: it is not there yet, or empty."""
    if path.resolve() == Path.cwd():
        raise CheckpointError(
            f"--out {path} is the folder you are in; name one to be made, such as --out {path / 'run'}"
        )
    if not path.exists():
        return
    if not path.is_dir():
        raise CheckpointError(f"{path}: there is a file of this name; choose another --out")
    folder = Folder(path)
    if folder.config.exists():
        raise CheckpointError(
            f"{path} already holds a run; choose another --out, or go on training it: regard train --resume {path}"
        )
    if saved := [*folder.checkpoints(), *folder.snapshots()]:
        raise CheckpointError(
            f"{path} has checkpoints of a run ({saved[-1].name}) but no config.json; restore that, or choose another "
            "--out"
        )
    names = sorted(entry.name for entry in path.iterdir())
    if names:
        listed = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise CheckpointError(f"{path} is not empty and not a run (it has {listed}); choose another --out")


def create(path: Path, fill: Callable[[Folder], None]) -> None:
    """Let `fill` write a run's files into a folder beside `path`, then move that folder there."""
    check_free(path)
    target = path.resolve()
    draft = Folder(target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}.part"))
    try:
        made = _make_parents(target.parent)
        _remove_old(target)
        draft.make()
        with locked(draft):
            for folder in (draft.state, draft.path):
                flush(folder)  # whatever is lost when the power fails: where there is a file, there is the lock
            fill(draft)
            for inner in sorted(draft.path.rglob("*"), reverse=True):
                flush(inner)
            flush(draft.path)
            _move(draft.path, target)
        for folder in (target.parent, *(parent.parent for parent in made)):
            flush(folder)
    except OSError as wrong:
        raise FileError(f"{path}: could not be made ({wrong.strerror or wrong}); nothing was left there") from wrong
    finally:
        remove(draft.path)


def _make_parents(parent: Path) -> list[Path]:
    """The folders above the run that had to be made."""
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    return missing


def _move(draft: Path, target: Path) -> None:
    """The draft becomes the target. An empty folder gives way, unless it is the root of a disk: that is filled, with
    config.json last, by which it becomes a run."""
    try:
        if os.name == "nt" and target.exists():
            target.rmdir()  # elsewhere an empty folder gives way to another
        os.rename(draft, target)
    except OSError:
        check_free(target)  # another process was quicker
        if not target.is_dir():
            raise
        for entry in sorted(draft.iterdir(), key=lambda entry: entry.name == Folder(draft).config.name):
            shutil.move(entry, target / entry.name)
        flush(target)


def _remove_old(target: Path) -> None:
    """Drafts that killed processes left. One whose lock is held is still being made; one without has no files."""
    for old in target.parent.glob(f".{glob.escape(target.name[:50])}.*.part"):
        with suppress(CheckpointError, OSError):
            draft = Folder(old)
            if (draft.state / "lock").exists():
                with locked(draft):
                    remove(old)
                continue
            for folder in (draft.state, old):
                if folder.exists():
                    folder.rmdir()
