"""Work that is cut into pieces, done by several processes of one thread each, the results in the order of the pieces.

On a CPU two processes with one thread each decode faster than one process with two threads: small matrices leave a
second thread waiting. The processes are forked, so that the model is loaded once and its pages are shared.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeVar

from torch import nn

from regard.core.errors import RegardError

Piece = TypeVar("Piece")
Result = TypeVar("Result")
WIDE = 512  # rows and columns of a matrix from which a second thread pays for a single sentence
AHEAD = 4  # pieces that are read, per process, before the first of them must be finished: this bounds the memory


class WorkerError(RegardError):
    """A process that worked for this one is gone."""


class _Worker(NamedTuple):
    process: BaseProcess
    pipe: Connection


def available() -> int:
    """How many processes are worth while: the cores this process may use, or one where it cannot be forked."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(model: nn.Module) -> int:
    """How many threads translate a few sentences fastest: all cores read wide weights, narrow ones are waited for."""
    wide = any(min(weight.shape) >= WIDE for weight in model.parameters() if weight.dim() == 2)
    return available() if wide else 1


def in_order(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], *, processes: int, begin: Callable[[], None]
) -> Iterator[Result]:
    """work(piece) for every piece, in order. `begin` is called in every process first: it limits the threads.

    Pieces are read as they are needed. An error of our own in a process is raised here, and so is a process that died.
    """
    workers: list[_Worker] = []
    try:
        for _ in range(processes):
            workers.append(_start(work, begin, [worker.pipe for worker in workers]))
        yield from _results(workers, enumerate(pieces))
    finally:
        for worker in workers:
            worker.pipe.close()  # the process ends when it finds nothing more to read
        for worker in workers:
            worker.process.join(timeout=1)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()


def _start(work: Callable[[Any], Any], begin: Callable[[], None], others: list[Connection]) -> _Worker:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, begin, theirs, [ours, *others]), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(work: Callable[[Any], Any], begin: Callable[[], None], pipe: Connection, foreign: list[Connection]) -> None:
    for end in foreign:  # inherited by the fork; held open they would hide that the parent is gone
        end.close()
    begin()
    try:
        while True:
            piece = pipe.recv()
            try:
                answer: tuple[bool, Any] = True, work(piece)
            except RegardError as wrong:
                answer = False, wrong
            pipe.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return  # nobody asks any more


def _results(workers: list[_Worker], pieces: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    idle, busy = list(workers), dict[Any, tuple[_Worker, int]]()
    done: dict[int, Any] = {}
    turn, read, more = 0, 0, True
    while True:
        while more and idle and read - turn < AHEAD * len(workers):
            numbered = next(pieces, None)
            if numbered is None:
                more = False
                break
            read += 1
            worker = idle.pop()
            _tell(worker, numbered[1])
            busy[worker.pipe] = worker, numbered[0]
        if turn in done:
            yield done.pop(turn)
            turn += 1
        elif busy:
            for pipe in wait(list(busy)):
                worker, number = busy.pop(pipe)
                done[number] = _hear(worker)
                idle.append(worker)
        else:
            return


def _tell(worker: _Worker, piece: Any) -> None:
    try:
        worker.pipe.send(piece)
    except OSError:
        raise _gone(worker) from None


def _hear(worker: _Worker) -> Any:
    try:
        fine, answer = worker.pipe.recv()
    except (EOFError, OSError):
        raise _gone(worker) from None
    if not fine:
        raise answer
    return answer


def _gone(worker: _Worker) -> WorkerError:
    worker.process.join(timeout=5)
    code = worker.process.exitcode
    return WorkerError(
        f"a working process died (exit code {code}); if memory ran out, try again with one process: --workers 1"
    )
