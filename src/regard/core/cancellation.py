"""Long work that can be given up: it asks now and then, and whoever started it may say no. Without anybody who does,
nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from regard.core.errors import RegardError

CancellationCheck = Callable[[], None]  # raises where the work is to end
_ask: ContextVar[CancellationCheck | None] = ContextVar("ask", default=None)


class Cancelled(RegardError):
    """Work that nobody waits for any more, or that took too long."""


@contextmanager
def cancellable(check: CancellationCheck) -> Iterator[None]:
    """Inside, long work calls `ask` between its parts."""
    token = _ask.set(check)
    try:
        yield
    finally:
        _ask.reset(token)


def check_cancelled() -> None:
    """Called between the parts of long work: here it ends if it is given up."""
    ask = _ask.get()
    if ask is not None:
        ask()
