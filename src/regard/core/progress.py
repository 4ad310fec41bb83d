"""Progress of long computations: tasks report it, training displays it. Without a callback it is a no-op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
ProgressCallback = Callable[[float], None]  # receives the completed fraction, 0 to 1
_callback: ContextVar[ProgressCallback | None] = ContextVar("progress_callback", default=None)


@contextmanager
def progress_callback(callback: ProgressCallback) -> Iterator[None]:
    """Report the progress of everything tracked inside the block to `callback`."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


def track(items: Iterable[T], total: float, size: Callable[[T], float] = lambda item: 1) -> Iterator[T]:
    """Yield the items, and report the completed fraction of `total` after each. `size` is the share of an item."""
    callback, done = _callback.get(), 0.0
    for item in items:
        yield item
        done += size(item)
        if callback is not None:
            callback(min(1.0, done / total) if total else 1.0)
