"""Cooperative cancellation: long computations call `check_cancelled()` between steps, which raises if the caller has
cancelled. Without a caller it is a no-op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from regard.core.errors import RegardError

CancellationCheck = Callable[[], None]  # raises `Cancelled` if the computation should stop
_check: ContextVar[CancellationCheck | None] = ContextVar("cancellation_check", default=None)


class Cancelled(RegardError):
    """A computation that was cancelled or timed out."""


@contextmanager
def cancellable(check: CancellationCheck) -> Iterator[None]:
    """Let `check_cancelled` call `check` inside the block."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_cancelled() -> None:
    """Raise if the current computation was cancelled; call this between the steps of long work."""
    check = _check.get()
    if check is not None:
        check()
