"""Work that is cut into pieces, done by several processes of one thread each, the results in the order of the pieces.

On a CPU two processes with one thread each decode faster than one process with two threads: small matrices leave a
second thread waiting. The processes are forked, so that the model is loaded once and its pages are shared.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.core.errors import RegardError

if TYPE_CHECKING:
    from torch import nn

Piece = TypeVar("Piece")
Result = TypeVar("Result")
WIDE = 512  # rows and columns of a matrix from which a second thread pays for a single input
LOAD = Path("/proc/loadavg")  # "0.20 0.18 0.12 1/80 11206": the fourth is how many run now, of how many there are
MOMENTS = (0.0, 0.002, 0.005, 0.01)  # seconds between looks at it
AHEAD = 4  # pieces that are read, per process, before the first of them must be finished: this bounds the memory


class WorkerError(RegardError):
    """A process that worked for this one is gone."""


def available() -> int:
    """How many processes are worth while: the cores this process may use, or one where it cannot be forked."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_idle() -> bool:
    """Whether nothing but this process runs on the machine, at one of a few moments at least: what the system itself
    does now and then takes no core. Threads that wait for each other at every small product are fast there, and a
    hundred times slower beside another program."""
    return any(_is_alone(after) for after in MOMENTS)


def _is_alone(after: float) -> bool:
    """Whether this process alone runs, so many seconds later; False where that is not told."""
    time.sleep(after)
    try:
        return int(LOAD.read_text(encoding="ascii").split()[3].partition("/")[0]) <= 1
    except (OSError, ValueError, IndexError):
        return False


def threads(model: nn.Module) -> int:
    """How many threads answer a few inputs fastest: one for each core if weights are wide, else one."""
    wide = any(min(weight.shape) >= WIDE for weight in model.parameters() if weight.dim() == 2)
    return available() if wide else 1


def in_order(
    work: Callable[[Piece], Result], pieces: Iterable[Piece | None], *, processes: int, begin: Callable[[], None]
) -> Iterator[Result]:
    """work(piece) for every piece, in order. `begin` is called in every process first: it limits the threads.

    Pieces are read as they are needed; None among them says that the next must be waited for, and all results that are
    due come first. An error of our own in a process is raised here, and so is a process that died.
    """
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(work, begin),  # inherited by the fork, not pickled
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            if piece is not None:
                waiting.append(pool.submit(_work, piece))
            while waiting and (piece is None or waiting[0].done() or len(waiting) >= AHEAD * processes):
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
