"""Who may use a model: many answers at once, or one look alone, whose hooks must see nothing but its own input."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from regard.core.cancellation import CancellationCheck

CANCEL_POLL_S = 0.1  # seconds between two questions whether whoever waits is still wanted


class ModelLock:
    """A lock that many may share. One who wants it alone waits for those inside; whoever comes later waits behind, but
    goes in before the next one who wants it alone: they take turns."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0  # who share it
        self._taken = False  # by one alone
        self._wanting = 0  # who want it alone
        self._waiting = 0  # who wait to share it
        self._invited = 0  # of these, who go in before the next one alone

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Beside others who share it."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._taken and (self._invited or not self._wanting))
            self._waiting -= 1
            self._invited = max(0, self._invited - 1)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self, cancel_check: CancellationCheck = lambda: None) -> Iterator[None]:
        """Beside nobody; `ask` raises as soon as it is not wanted any more."""
        with self._changed:
            self._wanting += 1
            try:
                while self._taken or self._inside or self._invited:
                    self._changed.wait(CANCEL_POLL_S)
                    cancel_check()
                self._taken = True
            finally:
                self._wanting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._taken, self._invited = False, self._waiting
                self._changed.notify_all()
