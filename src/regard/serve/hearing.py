"""What is decoded so far, from the thread that decodes to the client who reads along: only the latest, so that a slow
reader costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any


class Hearing:
    """The text so far of a request with one input."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._changed = loop, asyncio.Event()
        self._latest: tuple[str, int] | None = None
        self._over = False

    def tell(self, text: str, tokens: int) -> None:
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

    async def heard(self) -> AsyncIterator[tuple[str, int]]:
        """The text and its number of tokens as they change, until the end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            latest, self._latest = self._latest, None
            if latest is not None:
                yield latest
            if self._over and self._latest is None:
                return
