"""The places in a run folder, and the lock that keeps two trainings out of one folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import CheckpointError


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
