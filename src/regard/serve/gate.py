"""Who may use a model: many answers at once, or one look alone, whose hooks must see nothing but its own input."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """A lock that many may share. One who wants it alone waits for those inside; whoever comes later waits behind."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0  # who share it
        self._alone = False
        self._wanting = 0  # who want it alone

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Beside others who share it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._wanting)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def acquire(self, timeout: float = -1) -> bool:
        """Alone; False where that could not be had within so many seconds."""
        ends = None if timeout < 0 else time.monotonic() + timeout
        with self._changed:
            self._wanting += 1
            try:
                while self._alone or self._inside:
                    left = None if ends is None else ends - time.monotonic()
                    if (left is not None and left <= 0) or not self._changed.wait(left):
                        return False
                self._alone = True
                return True
            finally:
                self._wanting -= 1
                self._changed.notify_all()

    def release(self) -> None:
        """For the next."""
        with self._changed:
            self._alone = False
            self._changed.notify_all()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
