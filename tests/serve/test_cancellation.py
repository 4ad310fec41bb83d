"""Whoever waits for an answer: it comes, or the client goes, or it takes too long."""

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
def soon(monkeypatch):
    monkeypatch.setattr(cancellation, "LOOKED", 0.02)


def finish(work):
    """In a thread of its own: a browser of another test may keep a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


class Client:
    """Goes when it is told to; counts how often it was listened to."""

    def __init__(self):
        self.heard, self.leaves = 0, asyncio.Event()

    async def receive(self):
        self.heard += 1
        await self.leaves.wait()
        return {"type": "http.disconnect"}


def test_who_is_answered_at_once_is_not_listened_to():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        watch, coming = DisconnectMonitor(loop), loop.create_future()
        loop.call_soon(coming.set_result, 5)
        assert await watch.wait_for_result(coming, client.receive, time.monotonic() + 60) == 5
        await asyncio.sleep(0.1)
        assert client.heard == 0 and not watch._all and not watch._looks
        assert len(asyncio.all_tasks()) == 1

    finish(run())


def test_who_goes_while_they_wait_is_given_up():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        loop.call_later(0.1, client.leaves.set)
        with pytest.raises(Cancelled, match="the client has gone; nothing was computed further"):
            await DisconnectMonitor(loop).wait_for_result(loop.create_future(), client.receive, time.monotonic() + 60)
        assert client.heard == 1

    finish(run())


def test_what_takes_too_long_is_given_up_and_nothing_is_left():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        with pytest.raises(Cancelled, match="it took longer than 60 seconds; ask for less at a time"):
            await DisconnectMonitor(loop).wait_for_result(loop.create_future(), client.receive, time.monotonic() + 0.1)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    finish(run())


def test_a_server_that_ends_is_not_a_client_that_went():
    async def run():
        loop, client = asyncio.get_running_loop(), Client()
        waiting = DisconnectMonitor(loop).wait_for_result(loop.create_future(), client.receive, time.monotonic() + 60)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(Cancelled, match="the server has been told to end"):
            await task

    finish(run())


def test_a_thread_that_does_not_ask_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(cancellation, "LONGEST", 0.05)
    free = threading.Event()

    def stubborn(ask):
        assert free.wait(60)
        with pytest.raises(Cancelled, match="the client has gone"):
            ask()  # at last
        return "late"

    async def run():
        with ThreadPoolExecutor(1) as looks:
            app = SimpleNamespace(state=SimpleNamespace(looks=looks))
            request = SimpleNamespace(receive=Client().receive, app=app)
            with pytest.raises(Cancelled, match=r"it took longer than 0\.05 seconds; give a shorter input"):
                await cancellation.run_until_disconnect(request, stubborn)
            free.set()

    finish(run())
