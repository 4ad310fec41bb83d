"""Hand-over of results from the threads that predict to the event loop: final results and partial output.

Results that arrive together wake the loop once: a batch of 64 costs one wakeup, not 64. Of the partial output only the
latest text is kept, so a slow client costs no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any


class LoopMailbox:
    """Thread-safe queue of results for the futures of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._results: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._delivery_scheduled = False

    def put(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        """Set the result or the error of a future; may be called from any thread."""
        self._results.append((future, value, error))
        if not self._delivery_scheduled:  # else the scheduled delivery includes this result
            self._delivery_scheduled = True
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._delivery_scheduled = False  # before the first result is taken: later ones schedule another delivery
        while self._results:
            future, value, error = self._results.popleft()
            if future.done():  # cancelled
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


class PendingResponse:
    """Result of one request: set from any thread, awaited in the event loop."""

    def __init__(self, mailbox: LoopMailbox) -> None:
        self._mailbox = mailbox
        self.future: asyncio.Future[Any] = mailbox.loop.create_future()

    def set_result(self, value: Any) -> None:
        """Set the result."""
        self._mailbox.put(self.future, value, None)

    def set_exception(self, error: BaseException) -> None:
        """Set an error instead of a result."""
        self._mailbox.put(self.future, None, error)


class PartialOutputStream:
    """The latest partial output of a request with one input."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._changed = loop, asyncio.Event()
        self._latest: tuple[str, int] | None = None
        self._ended = False

    def update(self, text: str, tokens: int) -> None:
        """Set the text and its number of tokens; may be called from any thread."""
        self._call_in_loop(self._set, text, tokens)

    def end(self) -> None:
        """End the stream; may be called from any thread."""
        self._call_in_loop(self._end)

    async def updates(self) -> AsyncIterator[tuple[str, int]]:
        """Yield the text and its number of tokens whenever they change, until the stream ends."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            latest, self._latest = self._latest, None
            if latest is not None:
                yield latest
            if self._ended and self._latest is None:
                return

    def _call_in_loop(self, callback: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *args)

    def _set(self, text: str, tokens: int) -> None:
        self._latest = text, tokens
        self._changed.set()

    def _end(self) -> None:
        self._ended = True
        self._changed.set()
