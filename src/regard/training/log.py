"""Logging of a run: log.jsonl, timing.jsonl, TensorBoard and the console.

log.jsonl has the same bytes regardless of interruptions; times are in timing.jsonl.
"""

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
    """JSON Lines file that tracks its length and checksum, so that a checkpoint can store its position."""

    def __init__(self, path: Path, position: dict[str, Any]) -> None:
        """Truncate the file to the position of a checkpoint; the later rows will be written again."""
        self.path, self.bytes = path, int(position["bytes"])
        self._sha = hashlib.sha256()
        with wrap_write_errors(path), open_for_update(path) as file:
            content = file.read(self.bytes)
            self._sha.update(content)
            if self._sha.hexdigest() != position["sha256"]:
                difference = _difference(content, file.read(), position)
                raise CheckpointError(
                    f"{path}: has changed since the checkpoint ({difference}); restore it from a copy, or start a new "
                    "log",
                    command=f"regard train --resume {path.parent} --new-log",
                    python=f"regard.resume({str(path.parent)!r}, new_log=True)",
                )
            file.truncate(self.bytes)
        if not self.bytes:
            with wrap_write_errors(path):
                fsync(path.parent)  # the file may be new

    def add(self, row: LogRow) -> None:
        """Append a row; values that are not finite become null."""
        line = (json.dumps(_finite(row), ensure_ascii=False) + "\n").encode()
        append_bytes(self.path, line)
        self._sha.update(line)
        self.bytes += len(line)

    def position(self) -> dict[str, Any]:
        """Return the position at the end of the log, after flushing it to disk."""
        with wrap_write_errors(self.path), open_for_update(self.path) as file:
            os.fsync(file.fileno())
        return {"bytes": self.bytes, "sha256": self._sha.hexdigest()}


def _difference(content: bytes, rest: bytes, position: dict[str, Any]) -> str:
    """Describe how a log has changed."""
    with_newlines = (content + rest).replace(b"\r\n", b"\n")[: position["bytes"]]
    if hashlib.sha256(with_newlines).hexdigest() == position["sha256"]:
        return "its line endings were changed"
    missing = position["bytes"] - len(content)
    return f"{missing} of its {position['bytes']} bytes are missing" if missing else "its content was changed"


def move_aside(path: Path) -> Path | None:
    """Rename a log to a free name and return that path; None if the log does not exist."""
    if not path.exists():
        return None
    names = (path.with_name(f"{path.stem}-{index}{path.suffix}") for index in range(1, 10**6))
    target = next(name for name in names if not name.exists())
    with wrap_write_errors(path):
        os.replace(path, target)
    return target


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_rows(path: Path) -> list[LogRow]:
    """Read the rows of a log."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [dict(row.items()) for row in rows]
    except FileNotFoundError:
        return []
    except (ValueError, AttributeError, RecursionError):
        raise CheckpointError(f"{path}: a line is not JSON; resuming the run removes it") from None


class TensorBoardWriter:
    """Writes log rows for TensorBoard."""

    def __init__(self, folder: Path, step: int) -> None:
        require("tensorboard", extra="tensorboard")
        writer = require("torch.utils.tensorboard", extra="tensorboard").SummaryWriter
        self._writer = writer(str(folder), purge_step=step + 1)

    def add(self, row: LogRow) -> None:
        """Write every number of a row as a scalar."""
        for name, value in _scalars(row).items():
            if name != "step":
                self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()


def _scalars(row: LogRow, prefix: str = "") -> dict[str, float]:
    scalars: dict[str, float] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            scalars |= _scalars(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            scalars[prefix + key] = value
    return scalars


@dataclass
class Throughput:
    """Amount of training data, in units of the task, and time since the last log row."""

    count: int = 0
    seconds: float = 0.0


class NullReporter:
    """No-op reporter for all processes except the main process."""

    def log_only(self, row: LogRow) -> None: ...

    def add(self, row: LogRow, *, throughput: Throughput | None = None, remaining_s: float | None = None) -> None: ...

    def position(self) -> dict[str, Any]:
        return {}


class Reporter:
    """Writes rows to log, TensorBoard and console. Times go to timing.jsonl, so that log.jsonl is reproducible."""

    def __init__(
        self,
        folder: RunFolder,
        console: Console,
        *,
        position: dict[str, Any],
        tensorboard: TensorBoardWriter | None,
        throughput_unit: str,
    ) -> None:
        self._log, self._tensorboard = JsonlLog(folder.log, position), tensorboard
        self._timing, self._console, self._rate_name = folder.timing, console, f"{throughput_unit}/s"

    def log_only(self, row: LogRow) -> None:
        """Write a row to the log only."""
        self._log.add(row)

    def add(self, row: LogRow, *, throughput: Throughput | None = None, remaining_s: float | None = None) -> None:
        """Write a row, with the throughput and the remaining time for the console."""
        self._log.add(row)
        if self._tensorboard is not None:
            self._tensorboard.add(row)
        rate: LogRow = {}
        if throughput is not None:
            rate = {self._rate_name: round(throughput.count / max(throughput.seconds, 1e-9))}
            line = json.dumps({"step": row["step"], "seconds": round(throughput.seconds, 4), **rate}) + "\n"
            append_bytes(self._timing, line.encode())
        self._console.show_row(row | rate, remaining_s=remaining_s)

    def add_initial_time(self, seconds: float) -> None:
        """Write the time before the first step, in which parts were fitted to the data, if it is not negligible."""
        rounded = round(seconds, 4)
        if rounded:
            append_bytes(self._timing, (json.dumps({"step": 0, "seconds": rounded}) + "\n").encode())

    def position(self) -> dict[str, Any]:
        """Return the position of the log for a checkpoint."""
        return self._log.position()
