"""How far a long piece of work is: a task says it, training draws it; where nobody watches nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
ProgressCallback = Callable[[float], None]  # gets the share that is done, 0 to 1
_watcher: ContextVar[ProgressCallback | None] = ContextVar("watcher", default=None)


@contextmanager
def progress_callback(callback: ProgressCallback) -> Iterator[None]:
    """Inside, the watcher is told of all that is tracked."""
    token = _watcher.set(callback)
    try:
        yield
    finally:
        _watcher.reset(token)


def track(items: Iterable[T], total: float, size: Callable[[T], float] = lambda item: 1) -> Iterator[T]:
    """The items, one by one; after each the share of `total` that they sum up to is told. `size` is an item's part."""
    watcher, done = _watcher.get(), 0.0
    for item in items:
        yield item
        done += size(item)
        if watcher is not None:
            watcher(min(1.0, done / total) if total else 1.0)
