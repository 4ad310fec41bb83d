"""Ctrl-C, SIGTERM and a closed terminal (SIGHUP) ask for a stop after the step; a second Ctrl-C does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.core.errors import RegardError


class Interrupted(RegardError):
    """The run was stopped from outside and saved; the exit code says by what signal, as a shell would."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = 128 + signal.Signals[reason] if reason and reason in signal.Signals.__members__ else 1


class StopRequest:
    """Whether a stop was asked for, and by what."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def __bool__(self) -> bool:
        return self.reason is not None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """The signal handler: remember; interrupt at once when asked a second time by hand."""
        if self.reason is not None and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.reason = signal.Signals(signum).name


@contextmanager
def handle_signals() -> Iterator[StopRequest]:
    """Listen for the signals. Only a program's main thread can; elsewhere nothing ever asks."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup has it ignored
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop.handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
