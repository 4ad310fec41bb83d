"""Watch over the threads of a scheduler: threads that died were replaced, threads that do not return are overdue.

A thread of Python cannot be ended from outside. An overdue thread is therefore abandoned: it no longer counts as a
worker, another thread takes its place, and the health of the server says so.
"""

from __future__ import annotations

import logging
import threading
import time

GRACE_S = 10.0  # seconds after the deadline of a batch until its thread is overdue: work checks its deadline every step
MAX_OVERDUE_THREADS = 4  # of one scheduler; with more of them no new request is accepted


class WorkerWatch:
    """The active batches of a scheduler by thread, and the number of threads that died."""

    def __init__(self) -> None:
        self._deadlines: dict[threading.Thread, float] = {}  # by time.monotonic
        self.restarts = 0  # threads that died of an unexpected error

    def begin(self, deadline: float) -> None:
        """Note that the current thread works on a batch until a deadline."""
        self._deadlines[threading.current_thread()] = deadline + GRACE_S

    def end(self) -> None:
        """Note that the current thread has finished its batch."""
        self._deadlines.pop(threading.current_thread(), None)

    def record_death(self, error: BaseException) -> None:
        """Count a thread that died of an error, and log the error."""
        self.restarts += 1
        self.end()
        logging.getLogger("regard.serve").error("a worker thread died and is restarted", exc_info=error)

    def is_overdue(self, thread: threading.Thread) -> bool:
        """Return True if a thread should have returned by now."""
        return time.monotonic() > self._deadlines.get(thread, float("inf"))

    @property
    def overdue(self) -> int:
        """Number of threads that do not return."""
        now = time.monotonic()
        return sum(now > deadline for deadline in list(self._deadlines.values()))
