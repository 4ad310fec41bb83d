"""The run folder: where everything in it stands, config.json, the task's files, and the lock against two trainings."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regard.core.config import Table
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import digest, replacing
from regard.training import recipe as recipes
from regard.training import sealed
from regard.training.recipe import Recipe


@dataclass(frozen=True)
class Folder:
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
    def start(self) -> Path:
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

    def make(self) -> None:
        """Create the folder and its state folder."""
        try:
            self.state.mkdir(parents=True, exist_ok=True)
        except OSError as wrong:
            raise CheckpointError(f"{self.path}: cannot be made ({wrong.strerror}); choose another --out") from None

    def clean(self) -> None:
        """Remove what a killed process left half-written."""
        for part in [*self.path.glob(".*.part"), *self.state.glob(".*.part")]:
            part.unlink(missing_ok=True)


@contextmanager
def locked(folder: Folder) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it however the process ends."""
    if sys.platform == "win32":  # no flock there: two trainings in one folder are the user's to avoid
        yield
        return
    import fcntl

    try:
        handle = os.open(folder.state / "lock", os.O_CREAT | os.O_RDWR, 0o644)
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


def begin(folder: Folder, recipe: Recipe, save: Callable[[Path], None]) -> None:
    """Write the files that `save` puts into a folder and, last of all, config.json: with it the folder is a run."""
    folder.clean()
    digests: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=folder.state, prefix=".task") as draft:
        save(Path(draft))
        for source in sorted(path for path in Path(draft).rglob("*") if path.is_file()):
            name = source.relative_to(draft).as_posix()
            digests[name] = digest(source)
            (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
            with replacing(folder.path / name) as part:
                os.replace(source, part)
    write_recipe(folder, recipe, digests)


def write_recipe(folder: Folder, recipe: Recipe, digests: dict[str, str]) -> None:
    """config.json: the version, the whole recipe, and the checksums of the run's other files."""
    sealed.write_json(folder.config, {"version": recipes.VERSION, **recipe.to_dict(), "files": digests})


def read_config(folder: Folder) -> Table:
    """The table in config.json, brought to this version."""
    if not folder.path.is_dir():
        raise CheckpointError(f"{folder.path}: no such run folder")
    return recipes.migrate(sealed.read_json(folder.config), folder.config)


def read_recipe(folder: Folder) -> Recipe:
    """The recipe of a run."""
    table = read_config(folder)
    try:
        return recipes.from_dict({key: value for key, value in table.items() if key != "files"})
    except ConfigError as wrong:
        raise CheckpointError(f"{folder.config}: {wrong}") from None


def check_files(folder: Folder) -> None:
    """The files of task and start are as they were written, or the one that is not is named."""
    for name, expected in read_config(folder).get("files", {}).items():
        path = folder.path / name
        if not path.is_file():
            raise CheckpointError(f"{path}: missing; restore it from a copy of the run")
        if digest(path) != expected:
            raise CheckpointError(f"{path}: its checksum does not match config.json; restore it from a copy of the run")
