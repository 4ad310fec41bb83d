"""Hand-over of results to the event loop: one wakeup for many results, none for cancelled ones."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from regard.core.errors import DataError
from regard.serve.streams import LoopMailbox, PartialOutputStream, PendingResponse


def run_in_thread(coroutine):
    """Run in another thread: a browser of another test may have left a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


def test_many_results_wake_the_loop_once(monkeypatch):
    async def run():
        loop = asyncio.get_running_loop()
        wakeups, call_soon = [], loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: (wakeups.append(1), call_soon(*args)))
        mailbox = LoopMailbox(loop)
        responses = [PendingResponse(mailbox) for _ in range(50)]
        thread = threading.Thread(
            target=lambda: [response.set_result(value) for value, response in enumerate(responses)]
        )
        thread.start()
        thread.join()  # the loop is blocked meanwhile
        return [await response.future for response in responses], len(wakeups)

    assert run_in_thread(run()) == (list(range(50)), 1)


def test_results_that_arrive_during_a_delivery_are_delivered():
    async def run():
        mailbox = LoopMailbox(asyncio.get_running_loop())
        for _ in range(200):
            responses = [PendingResponse(mailbox) for _ in range(4)]
            threads = [threading.Thread(target=response.set_result, args=(1,)) for response in responses]
            for thread in threads:
                thread.start()
            assert [await asyncio.wait_for(response.future, 10) for response in responses] == [1] * 4

    run_in_thread(run())


def test_errors_are_raised_and_cancelled_futures_ignored():
    async def run():
        mailbox = LoopMailbox(asyncio.get_running_loop())
        failed, cancelled = PendingResponse(mailbox), PendingResponse(mailbox)
        cancelled.future.cancel()
        cancelled.set_result(1)
        failed.set_exception(DataError("no"))
        with pytest.raises(DataError, match="no"):
            await failed.future
        assert cancelled.future.cancelled()
        return failed

    late = run_in_thread(run())
    late.set_result(2)  # the loop is closed: ignored


def test_a_slow_reader_gets_only_the_latest_partial_output():
    async def run():
        stream = PartialOutputStream(asyncio.get_running_loop())
        for count in (1, 2, 3):
            stream.update("a" * count, count)
        stream.end()
        return [update async for update in stream.updates()]

    assert run_in_thread(run()) == [("aaa", 3)]
