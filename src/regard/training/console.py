"""Console output of training: a progress bar on a terminal, plain lines otherwise, nothing on other processes."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Protocol, TextIO

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

LogRow = dict[str, Any]
LOGGER = "regard"  # name of the logger of the Python API
EVALUATION_MESSAGE_INTERVAL_S = 30.0  # between two progress messages of an evaluation


class Console(Protocol):
    """Output of a training run."""

    def print_line(self, text: str) -> None:
        """Print a line."""

    def show_row(self, row: LogRow, *, remaining_s: float | None) -> None:
        """Show a log row with the throughput; `remaining_s` is the estimated time to the end in seconds."""

    def set_progress(self, fraction: float) -> None:
        """Set the completed fraction of the run; called after each step."""

    def set_status(self, text: str) -> None:
        """Show the current activity, until the first log row."""

    def show_evaluation(self, fraction: float, previous_s: float | None) -> None:
        """Show the completed fraction of an evaluation, and the duration of the previous one in seconds."""

    def close(self) -> None:
        """Close the output at the end of the run."""


class SilentConsole:
    """No output; for processes other than the main process, and for tests."""

    def print_line(self, text: str) -> None: ...

    def show_row(self, row: LogRow, *, remaining_s: float | None) -> None: ...

    def set_progress(self, fraction: float) -> None: ...

    def set_status(self, text: str) -> None: ...

    def show_evaluation(self, fraction: float, previous_s: float | None) -> None: ...

    def close(self) -> None: ...


class LineConsole:
    """Plain lines without control codes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._started_at = self._printed_at = 0.0  # start and last message of the evaluation

    def print_line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def show_row(self, row: LogRow, *, remaining_s: float | None) -> None:
        self.print_line(format_row(row, remaining_s))

    def set_progress(self, fraction: float) -> None: ...

    def set_status(self, text: str) -> None: ...

    def show_evaluation(self, fraction: float, previous_s: float | None) -> None:
        now = time.monotonic()
        if not fraction:
            self._started_at = self._printed_at = now
        elif now - self._printed_at > EVALUATION_MESSAGE_INTERVAL_S:
            self._printed_at = now
            self.print_line(f"evaluating  {fraction:.0%} after {format_duration(now - self._started_at)}")

    def close(self) -> None: ...


class LoggingConsole(LineConsole):
    """Lines as INFO records of the logger "regard". If the program configured no handler, they go to standard error."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._logger = logging.getLogger(LOGGER)
        self._handler = None if self._logger.hasHandlers() else logging.StreamHandler()
        self._level = self._logger.level
        if self._handler is not None:
            self._logger.addHandler(self._handler)
            self._logger.setLevel(logging.INFO)

    def print_line(self, text: str) -> None:
        self._logger.info("%s", text)

    def close(self) -> None:
        if self._handler is not None:
            self._logger.removeHandler(self._handler)
            self._logger.setLevel(self._level)


class ProgressBarConsole:
    """Progress bar, with evaluation rows above it."""

    def __init__(self, console: RichConsole) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f}%"))
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task("first step", total=1.0)
        self._drawn_at = 0.0
        self._bar.start()

    def print_line(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def show_row(self, row: LogRow, *, remaining_s: float | None) -> None:
        if "loss" in row:
            self.set_status(format_row(row, remaining_s))
        else:
            self.print_line(format_row(row, remaining_s))

    def set_progress(self, fraction: float) -> None:
        if time.monotonic() - self._drawn_at > 0.1:
            self._drawn_at = time.monotonic()
            self._bar.update(self._task, completed=fraction)

    def set_status(self, text: str) -> None:
        self._bar.update(self._task, description=escape(text))

    def show_evaluation(self, fraction: float, previous_s: float | None) -> None:
        previous = "" if previous_s is None else f" (the last one took {format_duration(previous_s)})"
        self.set_status(f"evaluating  {fraction:.0%}{previous}" if fraction else f"evaluating{previous}")

    def close(self) -> None:
        self._bar.stop()


def open_console() -> Console:
    """Return a progress bar on a terminal, plain lines otherwise."""
    console = RichConsole(stderr=True)
    return ProgressBarConsole(console) if console.is_terminal else LineConsole(sys.stderr)


def format_row(row: LogRow, remaining_s: float | None) -> str:
    """Format a log row as text."""
    parts: list[str] = []
    for key, value in row.items():
        if isinstance(value, dict):
            parts.append(f"{key}: " + ", ".join(f"{name} {_short(item)}" for name, item in value.items()))
        elif value is True:
            parts.append(key)
        elif value is not None and value is not False:
            parts.append(f"{key} {_short(value)}")
    if remaining_s is not None:
        parts.append(f"left {format_duration(remaining_s)}")
    return "  ".join(parts)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_duration(seconds: float) -> str:
    """Format seconds as minutes and hours: 83 -> '1:23'."""
    minutes, seconds_part = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds_part:02d}" if hours else f"{minutes}:{seconds_part:02d}"
