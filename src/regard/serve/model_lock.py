"""Shared/exclusive lock of a model: many predictions may run together, an inspection runs alone.

An inspection registers hooks on the model, which must only see its own input.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from regard.core.cancellation import CancellationCheck

CANCEL_POLL_S = 0.1  # seconds between two checks whether a waiting request was cancelled


class ModelLock:
    """A lock with shared and exclusive holders that alternate.

    A waiting exclusive holder blocks new shared ones. When it releases the lock, all shared holders that wait by then
    enter before the next exclusive one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared_holders = 0
        self._is_exclusive = False
        self._exclusive_waiting = 0
        self._shared_waiting = 0
        self._admitted = 0  # waiting shared holders that enter before the next exclusive one

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other shared holders."""
        with self._changed:
            self._shared_waiting += 1
            self._changed.wait_for(lambda: not self._is_exclusive and (self._admitted or not self._exclusive_waiting))
            self._shared_waiting -= 1
            self._admitted = max(0, self._admitted - 1)
            self._shared_holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._shared_holders -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self, cancel_check: CancellationCheck = lambda: None) -> Iterator[None]:
        """Hold the lock alone; `cancel_check` raises if the request is cancelled while it waits."""
        with self._changed:
            self._exclusive_waiting += 1
            try:
                while self._is_exclusive or self._shared_holders or self._admitted:
                    self._changed.wait(CANCEL_POLL_S)
                    cancel_check()
                self._is_exclusive = True
            finally:
                self._exclusive_waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_exclusive, self._admitted = False, self._shared_waiting
                self._changed.notify_all()
