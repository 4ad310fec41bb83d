"""Answers from the threads that compute them to the loop that waits for them. Those that come together wake the loop
once: a batch of 64 costs one wakeup, not 64.

What is decoded so far, from the thread that decodes to the client who reads along: only the latest, so that a slow
reader costs no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any


class LoopMailbox:
    """What any thread hands to one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._coming: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._called = False  # whether the loop knows that there is something

    def put(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        """From any thread: the future is to have this value, or this error."""
        self._coming.append((future, value, error))
        if not self._called:  # else the loop has yet to begin, and finds this too
            self._called = True
            with suppress(RuntimeError):  # the server has ended
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False  # before anything is taken: what comes from now on calls again
        while self._coming:
            future, value, wrong = self._coming.popleft()
            if future.done():  # nobody waits any more
                continue
            if wrong is None:
                future.set_result(value)
            else:
                future.set_exception(wrong)


class PendingResponse:
    """The answer to one request: set from any thread, awaited in the loop."""

    def __init__(self, post: LoopMailbox) -> None:
        self._post = post
        self.coming: asyncio.Future[Any] = post.loop.create_future()

    def set_result(self, value: Any) -> None:
        """It is this."""
        self._post.put(self.coming, value, None)

    def set_exception(self, wrong: BaseException) -> None:
        """There is none, but this error."""
        self._post.put(self.coming, None, wrong)


class PartialOutputStream:
    """The text so far of a request with one input."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._changed = loop, asyncio.Event()
        self._latest: tuple[str, int] | None = None
        self._over = False

    def update(self, text: str, tokens: int) -> None:
        """From any thread: the text is now this, of so many tokens."""
        self._soon(self._set, text, tokens)

    def end(self) -> None:
        """From any thread: there is no more."""
        self._soon(self._end)

    def _soon(self, call: Any, *given: Any) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(call, *given)

    def _set(self, text: str, tokens: int) -> None:
        self._latest = text, tokens
        self._changed.set()

    def _end(self) -> None:
        self._over = True
        self._changed.set()

    async def updates(self) -> AsyncIterator[tuple[str, int]]:
        """The text and its number of tokens as they change, until the end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            latest, self._latest = self._latest, None
            if latest is not None:
                yield latest
            if self._over and self._latest is None:
                return
