"""Signal handling: Ctrl-C, SIGTERM and SIGHUP stop a run after the current step, a second Ctrl-C immediately."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.core.errors import RegardError


class Interrupted(RegardError):
    """The run was stopped by a signal and saved; the exit code is 128 + signal, as in a shell."""

    def __init__(self, message: str, reason: str | None = None, *, command: str = "", python: str = "") -> None:
        super().__init__(message, command=command, python=python)
        self.code = 128 + signal.Signals[reason] if reason and reason in signal.Signals.__members__ else 1


class StopRequest:
    """A stop request; true once a signal has arrived, whose name is `reason`."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def __bool__(self) -> bool:
        return self.reason is not None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """Handle a signal: store its name, and raise KeyboardInterrupt at the second Ctrl-C."""
        if self.reason is not None and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.reason = signal.Signals(signum).name


@contextmanager
def handle_signals() -> Iterator[StopRequest]:
    """Install the signal handlers inside the block. In threads other than the main thread this is a no-op."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores it
        signals.append(signal.SIGHUP)
    before = {signum: signal.signal(signum, stop.handle) for signum in signals}
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
