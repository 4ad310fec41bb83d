"""Map a function over chunks with several processes of one thread each; results come in the order of the chunks.

On a CPU two processes with one thread each decode faster than one process with two threads: for small matrices the
second thread mostly waits. The processes are forked, so that the model is loaded once and its pages are shared.
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

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
MAX_PENDING_PER_PROCESS = 4  # chunks read ahead per process, which bounds the memory


class WorkerError(RegardError):
    """A worker process died."""


def map_in_order(
    work: Callable[[Chunk], Result], chunks: Iterable[Chunk | None], *, processes: int, initializer: Callable[[], None]
) -> Iterator[Result]:
    """Yield work(chunk) for every chunk, in order. `initializer` runs first in every process.

    Chunks are read on demand. None among them means that the next is not available yet; all pending results come
    first. An error in a process is raised here; a process that died raises a WorkerError.
    """
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_initialize,
        initargs=(work, initializer),  # inherited by the fork, not pickled
    )
    pending: deque[Future[Result]] = deque()
    try:
        for chunk in chunks:
            if chunk is not None:
                pending.append(pool.submit(_work, chunk))
            while pending and (
                chunk is None or pending[0].done() or len(pending) >= MAX_PENDING_PER_PROCESS * processes
            ):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise WorkerError("a worker process died; if memory ran out, try again with one process: --workers 1") from None
    finally:
        pool.shutdown(cancel_futures=True)


_job: list[Callable[[Any], Any]] = []  # in a worker: the function for each chunk


def _initialize(work: Callable[[Any], Any], initializer: Callable[[], None]) -> None:
    _job[:] = [work]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl+C ends a worker silently; the parent reports it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    initializer()


def _work(chunk: Any) -> Any:
    return _job[0](chunk)


def _end_with_parent() -> None:
    """End the worker when the parent dies; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
