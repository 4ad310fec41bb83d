"""Work in a thread, for as long as somebody waits for it and time allows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from regard.core.giving_up import Ask, GivenUp

LONGEST = 60.0  # seconds that a request may take
TOO_LONG = "it took longer than {:g} seconds; ask for less at a time"
T = TypeVar("T")


async def attended(request: Any, work: Callable[[Ask], T]) -> T:
    """Work in a thread of its own, which asks now and then whether it is still wanted."""
    gone, ends = threading.Event(), time.monotonic() + LONGEST

    def ask() -> None:
        if gone.is_set():
            raise GivenUp("the client has gone; nothing was computed further")
        if time.monotonic() > ends:
            raise GivenUp(f"it took longer than {LONGEST:g} seconds; give a shorter input")

    watching = asyncio.ensure_future(_left(request))
    watching.add_done_callback(lambda _: gone.set())
    try:
        return await asyncio.get_running_loop().run_in_executor(request.app.state.looks, work, ask)
    except asyncio.CancelledError:
        raise GivenUp("the server has been told to end") from None
    finally:
        gone.set()
        watching.cancel()


async def until_left(request: Any, wanted: asyncio.Future[T], seconds: float) -> T:
    """What is awaited, unless the client goes or it takes too long."""
    watching = asyncio.ensure_future(_left(request))
    watching.add_done_callback(lambda _: wanted.cancel())
    try:
        async with asyncio.timeout(seconds):
            return await wanted
    except TimeoutError:
        raise GivenUp(TOO_LONG.format(LONGEST)) from None
    except asyncio.CancelledError:
        if not watching.done():  # the server itself ends
            raise
        raise GivenUp("the client has gone; nothing was computed further") from None
    finally:
        watching.cancel()


async def _left(request: Any) -> None:
    """Returns when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
