"""Cancellation of requests: work ends when the client disconnects, the deadline passes or the server shuts down.

`run_until_disconnect` runs work in a thread; `DisconnectMonitor` watches requests that wait for the scheduler.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.core.cancellation import CancellationCheck, Cancelled

REQUEST_TIMEOUT_S = 60.0  # seconds until the deadline of a request
TIMEOUT_MESSAGE = "the request took longer than {:g} seconds; send fewer inputs at a time"
INSPECTION_TIMEOUT_MESSAGE = "the request took longer than {:g} seconds; send a shorter input"
DISCONNECTED_MESSAGE = "the client disconnected; the request was cancelled"
SHUTDOWN_MESSAGE = "the server is shutting down"
POLL_INTERVAL_S = 0.2  # seconds between two polls of the pending requests
Receive = Callable[[], Awaitable[Any]]
T = TypeVar("T")


class WorkFailure(RuntimeError):
    """Work ended with an error that is not an Exception."""


async def run_until_disconnect(request: Any, work: Callable[[CancellationCheck], T]) -> T:
    """Run work in a thread, with a function that raises once the request is cancelled.

    The client gets its error at the deadline even if the thread is in a long step that does not check.
    """
    cancelled = threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise Cancelled(DISCONNECTED_MESSAGE)

    def checked_work() -> T:
        check()  # the request may have been cancelled while it waited for a thread
        try:
            return work(check)
        except Exception:
            raise
        except BaseException as error:  # such as a panic of a Rust library: the event loop would end with it
            raise WorkFailure(f"{type(error).__name__}: {error}") from None

    def on_disconnect(_: Any) -> None:
        cancelled.set()
        future.cancel()  # the result is not needed; a thread that computes it ends at its next check

    future = asyncio.get_running_loop().run_in_executor(request.app.state.inspection_threads, checked_work)
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request.receive))
    disconnect.add_done_callback(on_disconnect)
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            return await future
    except TimeoutError:
        raise Cancelled(INSPECTION_TIMEOUT_MESSAGE.format(REQUEST_TIMEOUT_S)) from None
    except asyncio.CancelledError:
        raise Cancelled(DISCONNECTED_MESSAGE if disconnect.done() else SHUTDOWN_MESSAGE) from None
    finally:
        cancelled.set()
        disconnect.cancel()


@dataclass(eq=False)
class PendingRequest:
    """A request that waits for its result."""

    future: asyncio.Future[Any]
    receive: Receive
    deadline: float  # by time.monotonic
    polled: bool = False  # at least once
    disconnect: asyncio.Task[None] | None = None  # ends when the client disconnects

    def poll(self, now: float) -> None:
        """Fail the request if it is past its deadline.

        Disconnects are only watched from the second poll on: watching every fast request would cost more than
        serving it.
        """
        if now > self.deadline and not self.future.done():
            self.future.set_exception(Cancelled(TIMEOUT_MESSAGE.format(REQUEST_TIMEOUT_S)))
        elif self.polled and self.disconnect is None:
            self.disconnect = asyncio.ensure_future(_wait_for_disconnect(self.receive))
            self.disconnect.add_done_callback(self._on_disconnect)
        self.polled = True

    def _on_disconnect(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not self.future.done():
            self.future.set_exception(Cancelled(DISCONNECTED_MESSAGE))


class DisconnectMonitor:
    """Polls all pending requests of one event loop at a fixed interval, with one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._pending = loop, set[PendingRequest]()
        self._scheduled = False

    async def wait_for_result(self, future: asyncio.Future[T], receive: Receive, deadline: float) -> T:
        """Return the result of a future; raise Cancelled if the client disconnects or the deadline passes."""
        request = PendingRequest(future, receive, deadline)
        self._pending.add(request)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(POLL_INTERVAL_S, self._poll)
        try:
            return await future
        except asyncio.CancelledError:  # the server cancels requests after the grace period of its shutdown
            raise Cancelled(SHUTDOWN_MESSAGE) from None
        finally:
            self._pending.discard(request)
            if request.disconnect is not None:
                request.disconnect.cancel()

    def _poll(self) -> None:
        now = time.monotonic()
        for request in list(self._pending):
            request.poll(now)
        self._scheduled = bool(self._pending)
        if self._scheduled:
            self._loop.call_later(POLL_INTERVAL_S, self._poll)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
