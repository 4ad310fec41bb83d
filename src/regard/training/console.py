"""What a run says while it works: a bar on a terminal, plain lines elsewhere, nothing on other processes."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol, TextIO

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

LogRow = dict[str, Any]
EVALUATION_MESSAGE_INTERVAL_S = 30.0  # seconds of an evaluation between two lines about it


class Console(Protocol):
    """Where a run speaks."""

    def print_line(self, text: str) -> None:
        """One line."""

    def show_row(self, row: LogRow, *, remaining_s: float | None) -> None:
        """A row of the log with the rate; `left` is the estimated time to the end in seconds."""

    def set_progress(self, fraction: float) -> None:
        """The share of the run that is done, after each step."""

    def set_status(self, text: str) -> None:
        """What is being done, until the first row of the log says more."""

    def show_evaluation(self, fraction: float, previous_s: float | None) -> None:
        """The share of an evaluation that is done, and the seconds that the one before it took."""

    def close(self) -> None:
        """The run is over."""


class SilentConsole:
    """For processes other than the first, and for tests."""

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
        self._began = self._said = 0.0  # the evaluation, and when it was last spoken of

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
            self._began = self._said = now
        elif now - self._said > EVALUATION_MESSAGE_INTERVAL_S:
            self._said = now
            self.print_line(f"evaluating  {fraction:.0%} after {format_duration(now - self._began)}")

    def close(self) -> None: ...


class ProgressBarConsole:
    """A bar that moves, with evaluation lines above it."""

    def __init__(self, console: RichConsole) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f}%"))
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task("the first step", total=1.0)
        self._drawn = 0.0
        self._bar.start()

    def print_line(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def show_row(self, row: LogRow, *, remaining_s: float | None) -> None:
        if "loss" in row:
            self.set_status(format_row(row, remaining_s))
        else:
            self.print_line(format_row(row, remaining_s))

    def set_progress(self, fraction: float) -> None:
        if time.monotonic() - self._drawn > 0.1:
            self._drawn = time.monotonic()
            self._bar.update(self._task, completed=fraction)

    def set_status(self, text: str) -> None:
        self._bar.update(self._task, description=escape(text))

    def show_evaluation(self, fraction: float, previous_s: float | None) -> None:
        took = "" if previous_s is None else f" (the last one took {format_duration(previous_s)})"
        self.set_status(f"evaluating  {fraction:.0%}{took}" if fraction else f"evaluating{took}")

    def close(self) -> None:
        self._bar.stop()


def open_console() -> Console:
    """A bar on a terminal, plain lines otherwise."""
    console = RichConsole(stderr=True)
    return ProgressBarConsole(console) if console.is_terminal else LineConsole(sys.stderr)


def format_row(row: LogRow, remaining_s: float | None) -> str:
    """A row of the log in words."""
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
    """83 -> '1:23'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
