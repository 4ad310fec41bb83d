"""The run folder: where everything in it stands, config.json, the task's files, and the lock against two trainings.

The folder of a new run: it appears at once with all its files, or not at all, and never over something else.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core import checksums
from regard.core.config import Table
from regard.core.errors import CheckpointError, ConfigError, FileError
from regard.core.files import fsync
from regard.training import recipe as recipes
from regard.training import tensor_files
from regard.training.migrations import CONFIG_VERSION, migrate
from regard.training.recipe import Recipe

_OWN = ("run", "files", "fingerprint")  # keys of config.json that are not the recipe's


@dataclass(frozen=True)
class RunFolder:
    """A run folder; everything in it is found by name."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def timing(self) -> Path:
        return self.path / "timing.jsonl"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    @property
    def nonfinite(self) -> Path:
        return self.path / "nonfinite.json"

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def pretrained_weights(self) -> Path:
        """The weights taken from another run; start.json beside config.json says which."""
        return self.state / "start.safetensors"

    def checkpoint(self, step: int) -> Path:
        """Everything needed to go on after a step."""
        return self.state / f"step-{step:09d}.safetensors"

    def snapshot(self, step: int) -> Path:
        """The weights at an evaluation, kept for averaging."""
        return self.state / f"weights-{step:09d}.safetensors"

    def checkpoints(self) -> list[Path]:
        """All checkpoints, oldest first."""
        return sorted(self.state.glob("step-*.safetensors"))

    def snapshots(self) -> list[Path]:
        """All weights kept for averaging, oldest first."""
        return sorted(self.state.glob("weights-*.safetensors"))

    def mkdir(self) -> None:
        """Create the folder and its state folder."""
        try:
            self.state.mkdir(parents=True, exist_ok=True)
        except OSError as wrong:
            raise CheckpointError(f"{self.path}: cannot be made ({wrong.strerror}); choose another --out") from None

    def remove_partial_files(self) -> None:
        """Remove what a killed process left half-written."""
        for part in [*self.path.glob(".*.part"), *self.state.glob(".*.part"), *self.state.glob(".task*")]:
            remove_path(part)

    def reject_symlinks(self) -> None:
        """Nothing in the folder is a link to elsewhere, so that nothing elsewhere is written to."""
        for path in (*self.path.iterdir(), *(self.state.iterdir() if self.state.is_dir() else ())):
            if path.is_symlink():
                raise CheckpointError(
                    f"{path}: a link; nothing in a run is written through a link: put what it leads to in its place"
                )


def remove_path(path: Path) -> None:
    """A file or a whole folder, if it is there and can be removed; of a link the link itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: RunFolder) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it however the process ends."""
    if sys.platform == "win32":  # no flock there: two trainings in one folder are the user's to avoid
        yield
        return
    import fcntl

    try:
        handle = os.open(folder.state / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o644)
    except OSError as wrong:
        raise CheckpointError(f"{folder.path}: cannot be written to ({wrong.strerror}); choose another --out") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CheckpointError(
            f"{folder.path}: another process is training in this folder; wait for it to end"
        ) from None
    finally:
        os.close(handle)


@dataclass(frozen=True)
class RunIdentity:
    """What config.json holds beside the recipe: that by which the files of a run are known to belong together."""

    run_id: str | None  # the id that every file of the run carries; None: the run is older than ids
    files: Mapping[str, str]  # name -> SHA-256 of the files of task and start
    fingerprint: Mapping[str, str] | None  # part of the data -> checksum (Task.fingerprint); None: older than these

    def check(self, path: Path, metadata: Mapping[str, Any]) -> None:
        """Refuse a file of another run."""
        if metadata.get("run") != self.run_id:
            theirs, ours = (
                f"run {run}" if run else "a run without an id" for run in (metadata.get("run"), self.run_id)
            )
            raise CheckpointError(
                f"{path}: belongs to {theirs}, but {path.parent} holds {ours}; put the file of this run back"
            )


def new_identity(recipe: Recipe, files: Mapping[str, str], data: Mapping[str, str]) -> RunIdentity:
    """The identity of a new run. Its id is made of all that decides it: the same recipe, files and data are the same
    run, wherever they are trained, and give the same bytes."""
    decided = json.dumps([recipe.to_dict(), dict(files), dict(data)], sort_keys=True)
    return RunIdentity(hashlib.sha256(decided.encode()).hexdigest()[:16], files, data)


def write_config(folder: RunFolder, recipe: Recipe, identity: RunIdentity) -> None:
    """config.json: the version, the whole recipe, and the identity of the run."""
    own = {"run": identity.run_id, "files": dict(identity.files), "fingerprint": identity.fingerprint}
    tensor_files.write_json(folder.config, {"version": CONFIG_VERSION, **recipe.to_dict(), **own})


def read_config(folder: RunFolder) -> Table:
    """The table in config.json, brought to this version."""
    checksums.require_run_folder(folder.path)
    return migrate(tensor_files.read_json(folder.config), folder.config)


def read_recipe(folder: RunFolder) -> Recipe:
    """The recipe of a run."""
    table = read_config(folder)
    try:
        return recipes.from_dict({key: value for key, value in table.items() if key not in _OWN})
    except ConfigError as wrong:
        raise CheckpointError(f"{folder.config}: {wrong}") from None


def read_identity(folder: RunFolder) -> RunIdentity:
    """The identity of a run. Every name in it is a plain one inside the folder."""
    table = read_config(folder)
    run, files, data = (table.get(key) for key in _OWN)
    if not (run is None or isinstance(run, str)) or not (data is None or _is_text_table(data)):
        raise CheckpointError(f"{folder.config}: not written by regard (run or fingerprint is of the wrong kind)")
    if files is not None and not _is_text_table(files):
        raise CheckpointError(f"{folder.config}: not written by regard (files must be names with checksums)")
    for name in files or {}:
        if not _is_plain(name):
            raise CheckpointError(
                f"{folder.config}: files: {name!r} is no plain name inside the run folder; regard never wrote this"
            )
    return RunIdentity(run, files or {}, data)


def read_saved_metrics(folder: RunFolder) -> tuple[int, dict[str, float]]:
    """The step of the weights that a run keeps, and what they scored on the validation data."""
    facts = tensor_files.read_metadata(folder.model)
    step, metrics = facts.get("step"), facts.get("metrics")
    if not isinstance(step, int) or not isinstance(metrics, dict):
        raise tensor_files.CorruptFile(f"{folder.model}: not written by regard (no step and scores in it)")
    return step, {str(name): float(value) for name, value in metrics.items() if isinstance(value, int | float)}


def _is_text_table(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for pair in value.items() for item in pair)


def _is_plain(name: str) -> bool:
    """Whether a name leads to a file inside the folder on every system: no way up, no drive, no absolute path."""
    parts = name.split("/")
    return all(part not in ("", ".", "..") and not set(part) & set("\\:\0") for part in parts)


def check_files(folder: RunFolder) -> None:
    """The files of task and start are as they were written, or the one that is not is named."""
    checksums.verify_files(folder.path, read_identity(folder).files)


def check_available(path: Path) -> None:
    """A run can be made in this folder: it is not there yet, or empty."""
    if path.resolve() == Path.cwd():
        raise CheckpointError(
            f"--out {path} is the folder you are in; name one to be made, such as --out {path / 'run'}"
        )
    if not path.exists():
        return
    if not path.is_dir():
        raise CheckpointError(f"{path}: there is a file of this name; choose another --out")
    folder = RunFolder(path)
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


def create_run_folder(path: Path, write_files: Callable[[RunFolder], None]) -> None:
    """Let `fill` write a run's files into a folder beside `path`, then move that folder there."""
    check_available(path)
    target = path.resolve()
    draft = RunFolder(target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}.part"))
    try:
        made = _make_parents(target.parent)
        _remove_old(target)
        draft.mkdir()
        with lock_folder(draft):
            for folder in (draft.state, draft.path):
                fsync(folder)  # whatever is lost when the power fails: where there is a file, there is the lock
            write_files(draft)
            for inner in sorted(draft.path.rglob("*"), reverse=True):
                fsync(inner)
            fsync(draft.path)
            _move(draft.path, target)
        for folder in (target.parent, *(parent.parent for parent in made)):
            fsync(folder)
    except OSError as wrong:
        raise FileError(f"{path}: could not be made ({wrong.strerror or wrong}); nothing was left there") from wrong
    finally:
        remove_path(draft.path)


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
        check_available(target)  # another process was quicker
        if not target.is_dir():
            raise
        for entry in sorted(draft.iterdir(), key=lambda entry: entry.name == RunFolder(draft).config.name):
            shutil.move(entry, target / entry.name)
        fsync(target)


def _remove_old(target: Path) -> None:
    """Drafts that killed processes left. One whose lock is held is still being made; one without has no files."""
    for old in target.parent.glob(f".{glob.escape(target.name[:50])}.*.part"):
        with suppress(CheckpointError, OSError):
            draft = RunFolder(old)
            if (draft.state / "lock").exists():
                with lock_folder(draft):
                    remove_path(old)
                continue
            for folder in (draft.state, old):
                if folder.exists():
                    folder.rmdir()
