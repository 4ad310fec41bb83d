"""Work for as long as somebody waits for it and time allows: in a thread, or in a line."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.core.cancellation import CancellationCheck, Cancelled

REQUEST_TIMEOUT_S = 60.0  # seconds that a request may take
TIMEOUT_MESSAGE = "it took longer than {:g} seconds; ask for less at a time"
DISCONNECTED_MESSAGE = "the client has gone; nothing was computed further"
SHUTDOWN_MESSAGE = "the server has been told to end"
POLL_INTERVAL_S = 0.2  # seconds between two looks at those who wait
Receive = Callable[[], Awaitable[Any]]
T = TypeVar("T")


async def run_until_disconnect(request: Any, work: Callable[[CancellationCheck], T]) -> T:
    """Work in a thread of its own, which asks now and then whether it is still wanted. Whoever waits is told in time,
    also while the thread does something long that does not ask."""
    gone = threading.Event()

    def ask() -> None:
        if gone.is_set():
            raise Cancelled(DISCONNECTED_MESSAGE)

    watching = asyncio.ensure_future(_left(request.receive))
    watching.add_done_callback(lambda _: gone.set())
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            return await asyncio.get_running_loop().run_in_executor(request.app.state.looks, work, ask)
    except TimeoutError:
        raise Cancelled(f"it took longer than {REQUEST_TIMEOUT_S:g} seconds; give a shorter input") from None
    except asyncio.CancelledError:
        raise Cancelled(SHUTDOWN_MESSAGE) from None
    finally:
        gone.set()
        watching.cancel()


@dataclass(eq=False)
class PendingRequest:
    """Somebody who waits for an answer."""

    future: asyncio.Future[Any]
    receive: Receive
    deadline: float  # when it is too late, by time.monotonic
    polled: bool = False  # at a look before
    watching: asyncio.Task[None] | None = None  # hears that the client has gone

    def poll(self, now: float) -> None:
        """Give up what is late. Whoever waits for the second look is listened to: to do so for each request that is
        answered at once would cost more than all else that is done for it here."""
        if now > self.deadline and not self.future.done():
            self.future.set_exception(Cancelled(TIMEOUT_MESSAGE.format(REQUEST_TIMEOUT_S)))
        elif self.polled and self.watching is None:
            self.watching = asyncio.ensure_future(_left(self.receive))
            self.watching.add_done_callback(self._gone)
        self.polled = True

    def _gone(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and not self.future.done():
            self.future.set_exception(Cancelled(DISCONNECTED_MESSAGE))


class DisconnectMonitor:
    """Looks at those who wait in one loop, all at once, now and then."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._all = loop, set[PendingRequest]()
        self._looks = False

    async def wait_for_result(self, future: asyncio.Future[T], receive: Receive, deadline: float) -> T:
        """What is awaited, unless the client goes or it takes too long."""
        waiting = PendingRequest(future, receive, deadline)
        self._all.add(waiting)
        if not self._looks:
            self._looks = True
            self._loop.call_later(POLL_INTERVAL_S, self._look)
        try:
            return await future
        except asyncio.CancelledError:  # it has been told so for longer than a request takes
            raise Cancelled(SHUTDOWN_MESSAGE) from None
        finally:
            self._all.discard(waiting)
            if waiting.watching is not None:
                waiting.watching.cancel()

    def _look(self) -> None:
        now = time.monotonic()
        for waiting in list(self._all):
            waiting.poll(now)
        self._looks = bool(self._all)
        if self._looks:
            self._loop.call_later(POLL_INTERVAL_S, self._look)


async def _left(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
