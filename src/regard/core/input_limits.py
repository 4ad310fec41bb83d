"""Size limits for untrusted inputs. Code that reads uploads sets a limit; local files are not limited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from regard.core.errors import DataError

_max_pixels: ContextVar[int | None] = ContextVar("max_pixels", default=None)


@contextmanager
def limit_pixels(*, max_pixels: int) -> Iterator[None]:
    """Refuse larger images inside the block, before they are decompressed."""
    token = _max_pixels.set(max_pixels)
    try:
        yield
    finally:
        _max_pixels.reset(token)


def check_pixels(width: int, height: int, name: str) -> None:
    """Raise a DataError if the size in an image's header exceeds the current limit."""
    max_pixels = _max_pixels.get()
    if max_pixels is not None and width * height > max_pixels:
        raise DataError(f"{name}: {width}x{height} pixels; a request's image has at most {max_pixels:,}: scale it down")
