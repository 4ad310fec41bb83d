"""What a run reports: rows of log.jsonl, the same bytes however often it was interrupted, and beside them timing.jsonl,
TensorBoard and the console."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.extras import require
from regard.core.files import append_bytes, fsync, open_for_update, wrap_write_errors
from regard.training.console import Console, LogRow
from regard.training.run_folder import RunFolder


class JsonlLog:
    """Appends rows to a file and knows its length and checksum, so that a checkpoint can say where it stood."""

    def __init__(self, path: Path, position: dict[str, Any]) -> None:
        """Cut the file back to the position of a checkpoint; all after it will be written again."""
        self.path, self.bytes = path, int(position["bytes"])
        self._sha = hashlib.sha256()
        with wrap_write_errors(path), open_for_update(path) as file:
            content = file.read(self.bytes)
            self._sha.update(content)
            if self._sha.hexdigest() != position["sha256"]:
                difference = _difference(content, file.read(), position)
                raise CheckpointError(
                    f"{path}: not what it was at the checkpoint ({difference}); restore it from a copy, or begin a new "
                    f"one: regard train --resume {path.parent} --new-log"
                )
            file.truncate(self.bytes)
        if not self.bytes:
            with wrap_write_errors(path):
                fsync(path.parent)  # it may just have been made

    def add(self, row: LogRow) -> None:
        """One more line; numbers that are not finite become null, as JSON has none."""
        line = (json.dumps(_plain(row), ensure_ascii=False) + "\n").encode()
        append_bytes(self.path, line)
        self._sha.update(line)
        self.bytes += len(line)

    def position(self) -> dict[str, Any]:
        """Where the log stands, after making sure that it is on disk."""
        with wrap_write_errors(self.path), open_for_update(self.path) as file:
            os.fsync(file.fileno())
        return {"bytes": self.bytes, "sha256": self._sha.hexdigest()}


def _difference(content: bytes, rest: bytes, position: dict[str, Any]) -> str:
    """What has happened to a log, as far as that can be told."""
    plain = (content + rest).replace(b"\r\n", b"\n")[: position["bytes"]]
    if hashlib.sha256(plain).hexdigest() == position["sha256"]:
        return "its line ends were changed"
    missing = position["bytes"] - len(content)
    return f"{missing} of its {position['bytes']} bytes are gone" if missing else "its content was changed"


def move_aside(path: Path) -> Path | None:
    """Move a log out of the way; its new name, or None if there is none."""
    if not path.exists():
        return None
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, 10**6))
    target = next(name for name in names if not name.exists())
    with wrap_write_errors(path):
        os.replace(path, target)
    return target


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_rows(path: Path) -> list[LogRow]:
    """The rows of a log."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [dict(row.items()) for row in rows]
    except FileNotFoundError:
        return []
    except (ValueError, AttributeError, RecursionError):
        raise CheckpointError(f"{path}: a line is not JSON; regard train --resume {path.parent} cuts it off") from None


class TensorBoardWriter:
    """The same rows for TensorBoard."""

    def __init__(self, folder: Path, step: int) -> None:
        require("tensorboard", extra="tensorboard")
        writer = require("torch.utils.tensorboard", extra="tensorboard").SummaryWriter
        self._writer = writer(str(folder), purge_step=step + 1)

    def add(self, row: LogRow) -> None:
        """Every number of a row as a scalar of its own."""
        for name, value in _numbers(row).items():
            if name != "step":
                self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()


def _numbers(row: LogRow, prefix: str = "") -> dict[str, float]:
    numbers: dict[str, float] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            numbers |= _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[prefix + key] = value
    return numbers


@dataclass
class Throughput:
    """What was trained on, in what the task counts, and the time it took, since the last row."""

    count: int = 0
    seconds: float = 0.0


class NullReporter:
    """For all processes but the first."""

    def log_only(self, row: LogRow) -> None: ...

    def add(self, row: LogRow, *, throughput: Throughput | None = None, remaining_s: float | None = None) -> None: ...

    def position(self) -> dict[str, Any]:
        return {}


class Reporter:
    """Hands each row to log, TensorBoard and console. Times go to timing.jsonl, so that log.jsonl repeats exactly."""

    def __init__(
        self,
        folder: RunFolder,
        console: Console,
        *,
        position: dict[str, Any],
        tensorboard: TensorBoardWriter | None,
        throughput_unit: str,
    ) -> None:
        self._log, self._board = JsonlLog(folder.log, position), tensorboard
        self._timing, self._console, self._rate = folder.timing, console, f"{throughput_unit}/s"

    def log_only(self, row: LogRow) -> None:
        """A row for the log that need not be shown."""
        self._log.add(row)

    def add(self, row: LogRow, *, throughput: Throughput | None = None, remaining_s: float | None = None) -> None:
        """A row for the log, how fast the steps went, and the seconds left."""
        self._log.add(row)
        if self._board is not None:
            self._board.add(row)
        speed: LogRow = {}
        if throughput is not None:
            speed = {self._rate: round(throughput.count / max(throughput.seconds, 1e-9))}
            line = json.dumps({"step": row["step"], "seconds": round(throughput.seconds, 4), **speed}) + "\n"
            append_bytes(self._timing, line.encode())
        self._console.show_row(row | speed, remaining_s=remaining_s)

    def position(self) -> dict[str, Any]:
        """Where the log stands, for a checkpoint."""
        return self._log.position()
