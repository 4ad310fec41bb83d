"""One place a run reports to: the log, TensorBoard if wanted, the time taken, and the console."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from regard.core.files import append
from regard.training.console import Console
from regard.training.folder import Folder
from regard.training.log import Board, Log, Row


@dataclass
class Pace:
    """Tokens trained on and the time it took, since the last row."""

    tokens: int = 0
    seconds: float = 0.0


class Report(Protocol):
    """Takes rows; knows where the log stands."""

    def add(self, row: Row, *, pace: Pace | None = None, left: float | None = None) -> None:
        """A row for the log, how fast it goes, and the seconds left."""

    def position(self) -> dict[str, Any]:
        """Where the log stands, for a checkpoint."""


class Mute:
    """For all processes but the first."""

    def add(self, row: Row, *, pace: Pace | None = None, left: float | None = None) -> None: ...

    def position(self) -> dict[str, Any]:
        return {}


class Written:
    """The first process's reports. Times go to timing.jsonl, so that log.jsonl is the same on every machine."""

    def __init__(self, folder: Folder, console: Console, *, position: dict[str, Any], board: Board | None) -> None:
        self._log, self._board = Log(folder.log, position), board
        self._timing, self._console = folder.timing, console

    def add(self, row: Row, *, pace: Pace | None = None, left: float | None = None) -> None:
        self._log.add(row)
        if self._board is not None:
            self._board.add(row)
        speed: Row = {}
        if pace is not None:
            speed = {"tokens/s": round(pace.tokens / max(pace.seconds, 1e-9))}
            line = json.dumps({"step": row["step"], "seconds": round(pace.seconds, 4), **speed}) + "\n"
            append(self._timing, line.encode())
        self._console.show(row | speed, left=left)

    def position(self) -> dict[str, Any]:
        return self._log.position()
