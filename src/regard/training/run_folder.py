"""The run folder: its paths, config.json, the checksums of its files, its lock, and its atomic creation.

A new run folder appears with all its files or not at all, and never replaces existing files.
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
from regard.core.checksummed_json import CorruptFile, read_json, write_json
from regard.core.config import Table
from regard.core.errors import CheckpointError, ConfigError, FileError
from regard.core.files import draft_folder, file_sha256, flush_folder, fsync, lock_draft
from regard.training import recipe as recipes
from regard.training import tensor_files
from regard.training.migrations import CONFIG_VERSION, migrate, to_shares
from regard.training.recipe import Recipe

IDENTITY_KEYS = ("run", "files", "fingerprint")  # keys of config.json that are not part of the recipe


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run folder."""

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
    def origin(self) -> Path:
        """The origin of an imported run, which regard did not train and whose data it does not know."""
        return self.path / "imported.json"

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
        """The weights copied from another run; start.json lists them."""
        return self.state / "start.safetensors"

    def checkpoint(self, step: int) -> Path:
        """The checkpoint from which training resumes after a step."""
        return self.state / f"step-{step:09d}.safetensors"

    def snapshot(self, step: int) -> Path:
        """The weights at an evaluation, stored for averaging."""
        return self.state / f"weights-{step:09d}.safetensors"

    def checkpoints(self) -> list[Path]:
        """Return all checkpoints, oldest first."""
        return sorted(self.state.glob("step-*.safetensors"))

    def snapshots(self) -> list[Path]:
        """Return all weights stored for averaging, oldest first."""
        return sorted(self.state.glob("weights-*.safetensors"))

    def mkdir(self) -> None:
        """Create the folder and its state folder."""
        try:
            self.state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be created ({error.strerror}); choose another folder") from None

    def remove_partial_files(self) -> None:
        """Remove the partial files of a killed process."""
        for part in [*self.path.glob(".*.part"), *self.state.glob(".*.part"), *self.state.glob(".task*")]:
            remove_path(part)

    def reject_symlinks(self) -> None:
        """Raise a CheckpointError if the folder contains a link, so that training never writes outside it."""
        for path in (*self.path.iterdir(), *(self.state.iterdir() if self.state.is_dir() else ())):
            if path.is_symlink():
                raise CheckpointError(
                    f"{path}: is a link, and regard does not write through links; replace it by the file it points to"
                )


def remove_path(path: Path) -> None:
    """Remove a file, a link or a folder tree; ignore errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: RunFolder) -> Iterator[None]:
    """Lock the folder for this process. The system releases the lock when the process ends, for any reason."""
    if sys.platform == "win32":  # without flock the user must avoid two trainings in one folder
        yield
        return
    import fcntl

    try:
        handle = os.open(folder.state / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise CheckpointError(
            f"{folder.path}: cannot be written to ({error.strerror}); choose another folder"
        ) from None
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
    """The entries of config.json that are not the recipe. They tie the files of a run together."""

    run_id: str | None  # id in every file of the run; None: the run is older than ids
    files: Mapping[str, str]  # name -> SHA-256 of the files of the task and of start.json
    fingerprint: (
        Mapping[str, str] | None
    )  # part of the data -> checksum (Task.fingerprint); None: the run is older than these

    def check(self, path: Path, metadata: Mapping[str, Any]) -> None:
        """Refuse a file of another run."""
        if metadata.get("run") != self.run_id:
            actual, expected = (
                f"run {run}" if run else "a run without an id" for run in (metadata.get("run"), self.run_id)
            )
            raise CheckpointError(
                f"{path}: belongs to {actual}, but {path.parent} is {expected}; restore the file of this run"
            )


def new_identity(recipe: Recipe, files: Mapping[str, str], data: Mapping[str, str]) -> RunIdentity:
    """Return the identity of a new run. The id is a hash of recipe, files and data: a run with the same inputs has the
    same id, and the same bytes, on every machine."""
    content = json.dumps([recipe.to_dict(), dict(files), dict(data)], sort_keys=True)
    return RunIdentity(hashlib.sha256(content.encode()).hexdigest()[:16], files, data)


def file_checksums(folder: RunFolder) -> dict[str, str]:
    """Return the checksums of all files in the folder of a new run, except its state."""
    files = sorted(path for path in folder.path.rglob("*") if path.is_file() and folder.state not in path.parents)
    return {path.relative_to(folder.path).as_posix(): file_sha256(path) for path in files}


def write_config(folder: RunFolder, recipe: Recipe, identity: RunIdentity) -> None:
    """Write config.json: the version, the complete recipe, and the identity of the run."""
    entries = {"run": identity.run_id, "files": dict(identity.files), "fingerprint": identity.fingerprint}
    write_json(folder.config, {"version": CONFIG_VERSION, **recipe.to_dict(), **entries})


def read_config(folder: RunFolder) -> Table:
    """Read config.json and migrate it to the current version."""
    checksums.require_run_folder(folder.path)
    return migrate(read_json(folder.config), folder.config)


def read_origin(folder: RunFolder) -> dict[str, str] | None:
    """Return source and architecture of an imported run; None for a trained one."""
    if not folder.origin.exists():
        return None
    try:
        table = json.loads(folder.origin.read_text(encoding="utf-8"))
        return {name: str(table[name]) for name in ("source", "architecture")}
    except (OSError, ValueError, KeyError, TypeError):
        raise CheckpointError(f"{folder.origin}: damaged or not written by regard; restore it from a copy") from None


def read_recipe(folder: RunFolder) -> Recipe:
    """Read the recipe of a run."""
    table = read_config(folder)
    try:
        return recipes.from_dict({key: value for key, value in table.items() if key not in IDENTITY_KEYS})
    except ConfigError as error:
        raise CheckpointError(f"{folder.config}: {error}") from None


def read_identity(folder: RunFolder) -> RunIdentity:
    """Read the identity of a run. Every file name in it is a relative path inside the folder."""
    table = read_config(folder)
    run, files, data = (table.get(key) for key in IDENTITY_KEYS)
    if not (run is None or isinstance(run, str)) or not (data is None or _is_text_table(data)):
        raise CheckpointError(f"{folder.config}: not written by regard (run or fingerprint has the wrong type)")
    if files is not None and not _is_text_table(files):
        raise CheckpointError(f"{folder.config}: not written by regard (files must be names with checksums)")
    for name in files or {}:
        if not _is_relative(name):
            raise CheckpointError(
                f"{folder.config}: files: {name!r} is not a path inside the run folder; not written by regard"
            )
    return RunIdentity(run, files or {}, data)


def read_saved_metrics(folder: RunFolder) -> tuple[int, dict[str, float]]:
    """Read the step of the weights in model.safetensors, and their validation metrics."""
    metadata = tensor_files.read_metadata(folder.model)
    step, metrics = metadata.get("step"), metadata.get("metrics")
    if not isinstance(step, int) or not isinstance(metrics, dict):
        raise CorruptFile(f"{folder.model}: not written by regard (step or metrics are missing)")
    numbers = {str(name): float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    return step, to_shares(str(read_config(folder).get("task")), numbers)


def _is_text_table(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for pair in value.items() for item in pair)


def _is_relative(name: str) -> bool:
    """Return True if a name is a path inside the folder on every system: no "..", no drive, not absolute."""
    parts = name.split("/")
    return all(part not in ("", ".", "..") and not set(part) & set("\\:\0") for part in parts)


def check_files(folder: RunFolder) -> None:
    """Verify the checksums of the task's files; raise a CheckpointError for the first mismatch."""
    checksums.verify_files(folder.path, read_identity(folder).files)


def check_available(path: Path) -> None:
    """Raise a CheckpointError unless a run can be created at `path`: it must not exist, or be empty."""
    if path.resolve() == Path.cwd():
        raise CheckpointError(f"{path}: is the current folder; choose another, such as {path / 'run'}")
    if not path.exists():
        return
    if not path.is_dir():
        raise CheckpointError(f"{path}: a file of this name exists; choose another name")
    folder = RunFolder(path)
    if folder.config.exists():
        raise CheckpointError(
            f"{path} already contains a run; choose another folder, or continue it",
            command=f"regard train --resume {path}",
            python=f"regard.resume({str(path)!r})",
        )
    if saved := [*folder.checkpoints(), *folder.snapshots()]:
        raise CheckpointError(
            f"{path} contains checkpoints ({saved[-1].name}) but no config.json; restore config.json, or choose "
            "another folder"
        )
    names = sorted(entry.name for entry in path.iterdir())
    if names:
        sample = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise CheckpointError(f"{path} is not empty and not a run (it contains {sample}); choose another folder")


def create_run_folder(path: Path, write_files: Callable[[RunFolder], None]) -> None:
    """Call `write_files` with a temporary folder next to `path`, then move that folder to `path`."""
    with _created_parents(path) as target:
        draft = RunFolder(target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}.part"))
        _remove_stale_drafts(target)
        try:
            draft.mkdir()
            with lock_folder(draft), lock_draft(draft.path):
                for folder in (draft.state, draft.path):
                    fsync(folder)  # after a power failure a draft with files also has its lock
                write_files(draft)
                flush_folder(draft.path)
                _move(draft.path, target)
        finally:
            remove_path(draft.path)


def create_export_folder(path: Path, write_files: Callable[[Path], None]) -> None:
    """Call `write_files` with a temporary folder next to `path`, then move it to `path`, which is not a run.

    A run has a lock file among its files, but an export has none, so the temporary folder itself is locked.
    """
    with _created_parents(path) as target, draft_folder(target) as draft:
        write_files(draft)
        flush_folder(draft)
        _move(draft, target)


@contextmanager
def _created_parents(path: Path) -> Iterator[Path]:
    """Yield the absolute path of a folder that can be created; its parents are created before and flushed after."""
    check_available(path)
    target = path.resolve()
    try:
        created = _make_parents(target.parent)
        yield target
        for folder in (target.parent, *(parent.parent for parent in created)):
            fsync(folder)
    except OSError as error:
        raise FileError(
            f"{path}: could not be created ({error.strerror or error}); no files were left there"
        ) from error


def _make_parents(parent: Path) -> list[Path]:
    """Create the parent folders of the run; return those that did not exist."""
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    return missing


def _move(draft: Path, target: Path) -> None:
    """Move the draft to the target. An empty target folder is replaced. If that fails, as for a mount point, the files
    are moved one by one, config.json last, because config.json makes the folder a run."""
    try:
        if os.name == "nt" and target.exists():
            target.rmdir()  # other systems replace an empty folder
        os.rename(draft, target)
    except OSError:
        check_available(target)  # another process may have created it
        if not target.is_dir():
            raise
        for entry in sorted(draft.iterdir(), key=lambda entry: entry.name == RunFolder(draft).config.name):
            shutil.move(entry, target / entry.name)
        fsync(target)


def _remove_stale_drafts(target: Path) -> None:
    """Remove the drafts of killed processes. A locked draft is still in use; a draft without a lock has no files."""
    for path in target.parent.glob(f".{glob.escape(target.name[:50])}.*.part"):
        with suppress(CheckpointError, OSError):
            draft = RunFolder(path)
            if (draft.state / "lock").exists():
                with lock_folder(draft):
                    remove_path(path)
                continue
            for folder in (draft.state, path):
                if folder.exists():
                    folder.rmdir()
