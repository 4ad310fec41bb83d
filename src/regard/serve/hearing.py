"""What is decoded so far, from the thread that decodes to the client who reads along: only the latest, so that a slow
reader costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any


class Hearing:
    """The text so far of each input of a request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._changed = loop, asyncio.Event()
        self._latest: dict[int, str] = {}
        self._over = False

    def tell(self, input: int, text: str) -> None:
        """From any thread: the text of an input is now this."""
        self._soon(self._set, input, text)

    def end(self) -> None:
        """From any thread: there is no more."""
        self._soon(self._end)

    def _soon(self, call: Any, *given: Any) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(call, *given)

    def _set(self, input: int, text: str) -> None:
        self._latest[input] = text
        self._changed.set()

    def _end(self) -> None:
        self._over = True
        self._changed.set()

    async def heard(self) -> AsyncIterator[tuple[int, str]]:
        """Inputs and their texts as they change, until the end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            latest, self._latest = self._latest, {}
            for input, text in latest.items():
                yield input, text
            if self._over and not self._latest:
                return
