"""Requests of one run, answered in batches: those that come within a few milliseconds, or while others are computed,
and that ask for the same, are answered together. The line before them is short, and a request that nobody waits for any
more leaves it.

Whose turn it is: one request of each client in turn, and with it those that can be answered in the same batch.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from regard.core.cancellation import Cancelled, cancellable
from regard.core.errors import RegardError
from regard.core.task import Prediction
from regard.serve.streams import PartialOutputStream

BATCH_WAIT_S = 0.003  # seconds that the first request of a batch waits for others
MAX_BATCH_INPUTS = 64  # inputs of a batch
MAX_JOINED_INPUTS = (
    32  # inputs that begin together where searches are joined: each is answered when the last of them has ended
)
MAX_QUEUED_INPUTS = 512  # inputs that may wait
MAX_JOINED_BATCHES = 64  # batches under way where their searches are joined
MAX_EXTERNAL_BATCHES = 2  # under way where another engine searches: while it has one, the other is read or written
MAX_ACTIVE_INPUTS = 96  # inputs of them: of more, each step and each that joins costs all others more than it brings
THREAD_IDLE_S = 5.0  # seconds after which a thread without work ends

Predictions = list[list[Prediction]]


class BatchingPolicy(NamedTuple):
    """How a line is gone through."""

    max_batches: int  # that are under way at once, at most
    max_inputs: int  # inputs of each
    wait_s: float  # seconds that its first request waits for others


SEQUENTIAL = BatchingPolicy(1, MAX_BATCH_INPUTS, BATCH_WAIT_S)  # one batch after the other
CONTINUOUS = BatchingPolicy(MAX_JOINED_BATCHES, MAX_JOINED_INPUTS, 0.0)  # searches that are joined token by token
EXTERNAL_ENGINE = BatchingPolicy(
    MAX_EXTERNAL_BATCHES, MAX_BATCH_INPUTS, BATCH_WAIT_S
)  # batches that another engine searches for, and that it has threads for


class BatchCallbacks(NamedTuple):
    """What is known of a batch beside its inputs, and who hears of it before it is answered."""

    stream: PartialOutputStream | None = None  # what is decoded so far
    on_search_start: Callable[[], None] = lambda: None  # its search has begun, and the next batch may be prepared
    request_indices: tuple[int, ...] = ()  # of each input in its own request, which what it draws depends on


PredictFn = Callable[[Sequence[Any], Any, Any, BatchCallbacks], Predictions]


class QueueFull(RegardError):
    """A line that is full: 429, and when to come again."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


class ShuttingDown(RegardError):
    """A server that has been told to end: 503."""


class Outcome(Protocol):
    """Where the answers to a request go, or its error: a future of any kind. From any thread, once."""

    def set_result(self, value: Any, /) -> None: ...

    def set_exception(self, wrong: BaseException, /) -> None: ...


class PreparePhase:
    """The time until the search of a batch begins, or until it is answered; it ends once."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended: Callable[[], None] | None = ended

    def end(self) -> None:
        """It has begun."""
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()


@dataclass(eq=False)
class Job:
    """A request whose inputs have been read."""

    inputs: Sequence[Any]
    options: Any
    decoding: Any
    client: str = ""
    deadline: float = float("inf")  # when it is too late, by time.monotonic
    cancelled: bool = False  # nobody waits for it any more
    done: Outcome = field(default_factory=Future[Predictions])
    stream: PartialOutputStream | None = None  # whoever reads along
    samples_by_index: bool = False  # what it draws depends on the places of its inputs in this request, not in a batch

    @property
    def size(self) -> int:
        """How many inputs it has."""
        return len(self.inputs)

    @cached_property
    def batch_key(self) -> Hashable:
        """Equal where requests ask for the same; found once, since it is compared again and again while others are
        taken. The answer to a seed is the same whoever else asks: where what is drawn depends on the place in a batch,
        who draws is alone. So is who reads along."""
        draws = hasattr(self.options, "seed") or (self.decoding is not None and self.decoding.has("seed"))
        alone = self.stream is not None or (draws and not self.samples_by_index)
        return None if alone else (self.options, self.decoding)

    @property
    def is_expired(self) -> bool:
        """Whether its answer is of no use any more."""
        return self.cancelled or time.monotonic() > self.deadline


class RequestScheduler:
    """Threads that answer jobs, and those that wait for them.

    Those that ask for the same are taken together by one thread. Where searches are joined (pool.py) there are several
    such batches under way: while one is searched for, by the pool, the next is read and prepared. One is prepared at a
    time, so that others gather meanwhile, and threads do not wait for each other at every step.
    """

    def __init__(
        self,
        work: PredictFn,
        policy: BatchingPolicy = SEQUENTIAL,
        *,
        queue: int = MAX_QUEUED_INPUTS,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        self._work, self._queue, self._told = work, queue, on_batch  # `told` hears the size of each batch
        self._most, self._together, self._pause = policy
        self._turns: FairQueue[Job] = FairQueue()
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._enough = threading.Condition(lock)  # heard by the one who gathers a batch
        self._gathering = False  # whether somebody waits for more requests to come to the first
        self._ending = False
        self._between = 0.0  # seconds between two inputs that were answered, of late
        self._last = time.monotonic()
        self._under_way = 0  # inputs
        self._preparing = False  # whether a batch is, whose search has not begun
        self._idle = 0
        self._threads: set[threading.Thread] = set()  # begun when there is work for them, ended when there is none

    @property
    def queued_inputs(self) -> int:
        """Inputs whose turn has not come."""
        return self._turns.size

    def submit(self, job: Job) -> None:
        """Into the line, unless it is full or the server ends."""
        with self._changed:
            if self._ending:
                raise ShuttingDown("the server has been told to end; ask another one")
            if self._turns.size + job.size > self._queue:
                seconds = max(1, min(60, round(self._turns.size * self._between)))
                raise QueueFull(f"{self._turns.size} inputs wait for an answer; come again in {seconds} s", seconds)
            self._turns.add(job)
            if self._gathering:  # to wake it for each that comes would cost more than it saves
                if self._turns.size >= self._together:
                    self._enough.notify()
            elif not self._preparing:
                self._wake()

    def _wake(self) -> None:
        """A thread for the next batch: one that has nothing to do, or a new one."""
        if not self._idle and len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, daemon=True)
            self._threads.add(thread)
            self._idle += 1
            thread.start()
        self._changed.notify()

    def cancel(self, job: Job) -> None:
        """The client has gone: it is not begun, and what has begun is given up when nobody else waits for it."""
        with self._changed:
            job.cancelled = True
            self._turns.remove(job)

    def close(self) -> None:
        """Answer what waits, take nothing more, end."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            self._enough.notify_all()

    def join(self, seconds: float) -> None:
        """Wait until it has ended."""
        ends = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, ends - time.monotonic()))

    def _run(self) -> None:
        alone = True  # the first has just come, and so may others
        while True:
            with self._changed:
                alone = alone or not self._turns.size
                free = self._changed.wait_for(self._free, THREAD_IDLE_S)
                if not self._turns.size:
                    self._idle -= 1
                    self._threads.discard(threading.current_thread())
                    return
                if not free:
                    continue
                if alone and self._pause:
                    self._gather()
                jobs = [job for job in self._turns.take(self._together) if not job.is_expired]
                size = sum(job.size for job in jobs)
                self._under_way += size
                self._idle -= 1
                self._preparing = True
            alone = False  # while it is answered others gather
            preparation = PreparePhase(self._prepared)
            self._answer(jobs, preparation.end)
            preparation.end()
            with self._changed:
                self._under_way -= size
                self._idle += 1
                self._changed.notify()

    def _gather(self) -> None:
        """Wait a little for requests that come with the first."""
        self._gathering = True
        self._enough.wait_for(lambda: self._turns.size >= self._together or self._ending, self._pause)
        self._gathering = False

    def _prepared(self) -> None:
        """The next batch is another thread's."""
        with self._changed:
            self._preparing = False
            if self._turns.size:
                self._wake()

    def _free(self) -> bool:
        """Whether there is something to do, and memory for it; or nothing is to come any more."""
        if not self._turns.size:
            return self._ending
        if self._gathering or self._preparing:
            return False
        return not self._under_way or self._under_way + self._turns.first.size <= MAX_ACTIVE_INPUTS

    def _answer(self, jobs: list[Job], begun: Callable[[], None]) -> None:
        """A batch; where something is wrong in it, each half by itself, so that nobody has the error of another."""
        if not jobs:
            return
        places = tuple(place for job in jobs for place in range(job.size))
        listener = BatchCallbacks(jobs[0].stream if len(jobs) == 1 else None, begun, places)
        try:
            with cancellable(lambda: _ask(jobs)):
                inputs = [given for job in jobs for given in job.inputs]
                answers = iter(self._work(inputs, jobs[0].options, jobs[0].decoding, listener))
                own = [[next(answers) for _ in job.inputs] for job in jobs]
        except Exception as wrong:  # whatever it is, it is this request's alone, and the thread goes on
            if len(jobs) == 1:
                _fail(jobs[0], wrong)
                return
            for half in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
                self._answer([job for job in half if not job.is_expired], begun)
            return
        self._note(sum(job.size for job in jobs))
        for job, each in zip(jobs, own, strict=True):
            with suppress(InvalidStateError):  # cancelled meanwhile
                job.done.set_result(each)

    def _note(self, size: int) -> None:
        now = time.monotonic()
        self._between, self._last = 0.9 * self._between + 0.1 * (now - self._last) / size, now
        if self._told is not None:
            self._told(size)


def _fail(job: Job, wrong: Exception) -> None:
    with suppress(InvalidStateError):
        job.done.set_exception(wrong)


def _ask(jobs: Sequence[Job]) -> None:
    """Called between the parts of long work."""
    if all(job.is_expired for job in jobs):
        raise Cancelled("nobody waits for the answer any more")


class QueueItem(Protocol):
    """What waits for its turn."""

    @property
    def client(self) -> str: ...

    @property
    def batch_key(self) -> Hashable:
        """Those of one kind are answered together; None: alone."""

    @property
    def size(self) -> int:
        """How many inputs it has."""


W = TypeVar("W", bound=QueueItem)


class FairQueue(Generic[W]):
    """A line for each client. Whoever sends much waits behind their own requests, not others behind them."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[W]] = OrderedDict()
        self.size = 0  # inputs that wait

    @property
    def count(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def add(self, item: W) -> None:
        """The last of its client's line."""
        self._lines.setdefault(item.client, deque()).append(item)
        self.size += item.size

    def remove(self, item: W) -> bool:
        """Out of its line, wherever it stands; False where its turn has come already."""
        line = self._lines.get(item.client)
        if line is None or item not in line:
            return False
        line.remove(item)
        self._left(item)
        return True

    @property
    def first(self) -> W:
        """Whose turn it is."""
        return next(iter(self._lines.values()))[0]

    def take(self, max_inputs: int) -> list[W]:
        """The one whose turn it is, and others of its kind, up to so many inputs; nothing where nobody waits."""
        if not self._lines:
            return []
        first = self.first
        taken, room = [first], max_inputs - first.size
        if first.batch_key is not None:
            for one in self._in_turn():
                if room <= 0:
                    break
                if one is not first and one.batch_key == first.batch_key and one.size <= room:
                    taken.append(one)
                    room -= one.size
        self._lines.move_to_end(first.client)
        for one in taken:
            self._lines[one.client].remove(one)
            self._left(one)
        return taken

    def _in_turn(self) -> Iterator[W]:
        """All, the first of each client, then the second of each, and so on."""
        for row in zip_longest(*self._lines.values()):
            yield from (one for one in row if one is not None)

    def _left(self, one: W) -> None:
        self.size -= one.size
        if not self._lines[one.client]:
            del self._lines[one.client]
