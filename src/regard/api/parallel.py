"""Work that is cut into pieces, done by several processes of one thread each, the results in the order of the pieces.

On a CPU two processes with one thread each decode faster than one process with two threads: small matrices leave a
second thread waiting. The processes are forked, so that the model is loaded once and its pages are shared.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from regard.core.errors import RegardError

Piece = TypeVar("Piece")
Result = TypeVar("Result")
MAX_PENDING_PER_PROCESS = (
    4  # pieces that are read, per process, before the first of them must be finished: this bounds the memory
)


class WorkerError(RegardError):
    """A process that worked for this one is gone."""


def map_in_order(
    work: Callable[[Piece], Result], pieces: Iterable[Piece | None], *, processes: int, initializer: Callable[[], None]
) -> Iterator[Result]:
    """work(piece) for every piece, in order. `begin` is called in every process first: it limits the threads.

    Pieces are read as they are needed; None among them says that the next must be waited for, and all results that are
    due come first. An error of our own in a process is raised here, and so is a process that died.
    """
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(work, initializer),  # inherited by the fork, not pickled
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            if piece is not None:
                waiting.append(pool.submit(_work, piece))
            while waiting and (
                piece is None or waiting[0].done() or len(waiting) >= MAX_PENDING_PER_PROCESS * processes
            ):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise WorkerError(
            "a working process died; if memory ran out, try again with one process: --workers 1"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_job: list[Callable[[Any], Any]] = []  # in a worker: what it does with each piece


def _begin(work: Callable[[Any], Any], begin: Callable[[], None]) -> None:
    _job[:] = [work]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl+C ends a worker without a word; the parent has one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin()


def _work(piece: Any) -> Any:
    return _job[0](piece)


def _end_with_parent() -> None:
    """A pool's process waits for work for ever, also when nobody is left to send any."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
