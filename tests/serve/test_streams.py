"""Answers from threads to the loop that waits: one wakeup for many, and nothing for those who wait no more."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from regard.core.errors import DataError
from regard.serve.streams import LoopMailbox, PendingResponse


def finish(work):
    """In a thread of its own: a browser of another test may keep a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def test_many_answers_wake_the_loop_once(monkeypatch):
    async def run():
        loop = asyncio.get_running_loop()
        woken, wake = [], loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: (woken.append(1), wake(*given)))
        post = LoopMailbox(loop)
        replies = [PendingResponse(post) for _ in range(50)]
        told = threading.Thread(target=lambda: [reply.set_result(n) for n, reply in enumerate(replies)])
        told.start()
        told.join()  # the loop does nothing meanwhile
        return [await reply.coming for reply in replies], len(woken)

    assert finish(run()) == (list(range(50)), 1)


def test_what_comes_while_others_are_delivered_is_delivered_too():
    async def run():
        post = LoopMailbox(asyncio.get_running_loop())
        for _ in range(200):
            replies = [PendingResponse(post) for _ in range(4)]
            threads = [threading.Thread(target=reply.set_result, args=(1,)) for reply in replies]
            for thread in threads:
                thread.start()
            assert [await asyncio.wait_for(reply.coming, 10) for reply in replies] == [1] * 4

    finish(run())


def test_an_error_is_raised_where_it_is_awaited_and_who_waits_no_more_gets_nothing():
    async def run():
        post = LoopMailbox(asyncio.get_running_loop())
        wrong, left = PendingResponse(post), PendingResponse(post)
        left.coming.cancel()
        left.set_result(1)
        wrong.set_exception(DataError("no"))
        with pytest.raises(DataError, match="no"):
            await wrong.coming
        assert left.coming.cancelled()
        return wrong

    late = finish(run())
    late.set_result(2)  # the loop has ended: nothing happens
