"""How large an input may be that a stranger sent. Whoever reads for strangers says so; for one's own files there is no
bound but the reader's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from regard.core.errors import DataError

_pixels: ContextVar[int | None] = ContextVar("pixels", default=None)


@contextmanager
def limit_pixels(*, max_pixels: int) -> Iterator[None]:
    """Inside, an image of more pixels is refused before it is unpacked."""
    token = _pixels.set(max_pixels)
    try:
        yield
    finally:
        _pixels.reset(token)


def check_pixels(width: int, height: int, name: str) -> None:
    """What an image's head says of its size, held against the bound."""
    most = _pixels.get()
    if most is not None and width * height > most:
        raise DataError(f"{name}: {width}x{height} pixels; a request's image has at most {most:,}: scale it down")
