"""Requests that wait for a result: it arrives, the client disconnects, or the deadline passes."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from regard.core.cancellation import Cancelled
from regard.serve import cancellation
from regard.serve.cancellation import DisconnectMonitor


@pytest.fixture(autouse=True)
def short_polls(monkeypatch):
    monkeypatch.setattr(cancellation, "POLL_INTERVAL_S", 0.02)


def run_in_thread(coroutine):
    """Run in another thread: a browser of another test may have left a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


class Client:
    """Disconnects on request; counts how often a message was awaited."""

    def __init__(self):
        self.receive_calls, self.disconnect = 0, asyncio.Event()

    async def receive(self):
        self.receive_calls += 1
        await self.disconnect.wait()
        return {"type": "http.disconnect"}


def test_disconnects_of_fast_requests_are_not_watched():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        monitor, future = DisconnectMonitor(loop), loop.create_future()
        loop.call_soon(future.set_result, 5)
        assert await monitor.wait_for_result(future, client.receive, time.monotonic() + 60) == 5
        await asyncio.sleep(0.1)
        assert client.receive_calls == 0 and not monitor._pending and not monitor._scheduled
        assert len(asyncio.all_tasks()) == 1

    run_in_thread(run())


def test_a_request_is_cancelled_when_its_client_disconnects():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        loop.call_later(0.1, client.disconnect.set)
        with pytest.raises(Cancelled, match="the client disconnected; the request was cancelled"):
            await DisconnectMonitor(loop).wait_for_result(loop.create_future(), client.receive, time.monotonic() + 60)
        assert client.receive_calls == 1

    run_in_thread(run())


def test_a_request_is_cancelled_at_its_deadline_and_leaves_no_task():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        with pytest.raises(Cancelled, match="the request took longer than 60 seconds; send fewer inputs at a time"):
            await DisconnectMonitor(loop).wait_for_result(loop.create_future(), client.receive, time.monotonic() + 0.1)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    run_in_thread(run())


def test_a_shutdown_is_not_reported_as_a_disconnect():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        waiting = DisconnectMonitor(loop).wait_for_result(loop.create_future(), client.receive, time.monotonic() + 60)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(Cancelled, match="the server is shutting down"):
            await task

    run_in_thread(run())


def test_the_deadline_does_not_depend_on_the_checks_of_the_thread(monkeypatch):
    monkeypatch.setattr(cancellation, "REQUEST_TIMEOUT_S", 0.05)
    resume = threading.Event()

    def work(check):
        assert resume.wait(60)
        with pytest.raises(Cancelled, match="the client disconnected"):
            check()
        return "late"

    async def run():
        with ThreadPoolExecutor(1) as threads:
            app = SimpleNamespace(state=SimpleNamespace(inspection_threads=threads))
            request = SimpleNamespace(receive=Client().receive, app=app)
            with pytest.raises(Cancelled, match=r"the request took longer than 0\.05 seconds; send a shorter input"):
                await cancellation.run_until_disconnect(request, work)
            resume.set()

    run_in_thread(run())
