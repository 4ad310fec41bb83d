"""Long work that can be given up: it asks now and then, and whoever started it may say no. Without anybody who does,
nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from regard.core.errors import RegardError

Ask = Callable[[], None]  # raises where the work is to end
_ask: ContextVar[Ask | None] = ContextVar("ask", default=None)


class Cancelled(RegardError):
    """Work that nobody waits for any more, or that took too long."""


@contextmanager
def cancellable(ask: Ask) -> Iterator[None]:
    """Inside, long work calls `ask` between its parts."""
    token = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(token)


def check_cancelled() -> None:
    """Called between the parts of long work: here it ends if it is given up."""
    ask = _ask.get()
    if ask is not None:
        ask()
