"""Request scheduler of one run: a bounded queue that is fair between clients, and threads that predict in batches.

Requests with equal options that arrive within a few milliseconds, or while other batches are computed, share a batch.
Requests past their deadline, and requests whose client has disconnected, are removed from the queue.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from regard.core.cancellation import Cancelled, cancellable
from regard.core.errors import RegardError
from regard.core.task import Prediction
from regard.serve.streams import PartialOutputStream
from regard.serve.worker_watch import MAX_OVERDUE_THREADS, WorkerWatch

BATCH_WAIT_S = 0.003  # seconds that the first request of a batch waits for more requests
MAX_BATCH_INPUTS = 64  # inputs of one batch
MAX_JOINED_INPUTS = 32  # inputs that start together with continuous batching: each waits for the last of them
MAX_QUEUED_INPUTS = 512  # inputs in the queue
MAX_JOINED_BATCHES = 64  # active batches with continuous batching
MAX_EXTERNAL_BATCHES = 2  # active batches of an external engine: it computes one while the other is parsed or encoded
MAX_ACTIVE_INPUTS = 96  # inputs of all active batches: above this, each step costs the others more than it gains
THREAD_IDLE_S = 5.0  # seconds after which an idle thread ends

Predictions = list[list[Prediction]]


class BatchingPolicy(NamedTuple):
    """Limits on the batches of a scheduler."""

    max_batches: int  # active batches
    max_inputs: int  # inputs of each batch
    wait_s: float  # seconds that the first request of a batch waits for more


SEQUENTIAL = BatchingPolicy(1, MAX_BATCH_INPUTS, BATCH_WAIT_S)  # one batch after the other
CONTINUOUS = BatchingPolicy(MAX_JOINED_BATCHES, MAX_JOINED_INPUTS, 0.0)  # searches are merged at every step
EXTERNAL_ENGINE = BatchingPolicy(MAX_EXTERNAL_BATCHES, MAX_BATCH_INPUTS, BATCH_WAIT_S)  # the engine has its own threads


class BatchCallbacks(NamedTuple):
    """Callbacks of a batch, and the position of each input in its own request."""

    stream: PartialOutputStream | None = None  # receives the partial output
    on_search_start: Callable[[], None] = lambda: None  # the search has started: the next batch may be prepared
    request_indices: tuple[int, ...] = ()  # index of each input in its request, which its samples depend on


PredictFn = Callable[[Sequence[Any], Any, Any, BatchCallbacks], Predictions]


class QueueFull(RegardError):
    """The queue is full: status 429, with the seconds after which the client should retry."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


class ShuttingDown(RegardError):
    """The server is shutting down: status 503."""


class WorkersOverdue(RegardError):
    """The threads of a run do not return: status 503."""


class WorkerFailure(RuntimeError):
    """A request ended with an error that is not an Exception, such as a panic of a Rust library."""


class Outcome(Protocol):
    """Receiver of a request's predictions or of its error; called once, from any thread. Every future is one."""

    def set_result(self, value: Any, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


@dataclass(eq=False)
class Job:
    """A queued request whose inputs have been parsed."""

    inputs: Sequence[Any]
    options: Any
    decoding: Any
    client: str = ""
    deadline: float = float("inf")  # by time.monotonic
    cancelled: bool = False  # the client has disconnected
    done: Outcome = field(default_factory=Future[Predictions])
    stream: PartialOutputStream | None = None  # set if the client reads the partial output
    samples_by_index: bool = False  # samples depend on the inputs' indices in this request, not in the batch

    @property
    def size(self) -> int:
        """Number of inputs."""
        return len(self.inputs)

    @cached_property
    def batch_key(self) -> Hashable:
        """Requests with equal keys may share a batch; None: the request is predicted alone.

        Results must not depend on other requests: requests whose samples depend on their position in the batch, and
        streaming requests, are not batched. Computed once, because the queue compares keys repeatedly.
        """
        samples = hasattr(self.options, "seed") or (self.decoding is not None and self.decoding.has_setting("seed"))
        alone = self.stream is not None or (samples and not self.samples_by_index)
        return None if alone else (self.options, self.decoding)

    @property
    def is_expired(self) -> bool:
        """True if the request was cancelled or its deadline has passed."""
        return self.cancelled or time.monotonic() > self.deadline


class RequestScheduler:
    """Queue of jobs, and the threads that predict them.

    Jobs with equal keys are taken from the queue together by one thread. With continuous batching several batches are
    active: while the batcher decodes one, the next is parsed and prefilled. Only one batch is prepared at a time. So
    further requests collect in the queue meanwhile, and the threads do not contend at every step.
    """

    def __init__(
        self,
        predict: PredictFn,
        policy: BatchingPolicy = SEQUENTIAL,
        *,
        max_queued: int = MAX_QUEUED_INPUTS,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        self._predict, self._max_queued = predict, max_queued
        self._on_batch = on_batch  # called with the size of each predicted batch
        self._max_batches, self._max_inputs, self._wait_s = policy
        self._queue: FairQueue[Job] = FairQueue()
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._batch_full = threading.Condition(lock)  # notifies the thread that collects a batch
        self._collecting = False  # a thread waits for more requests to join the first
        self._closing = False
        self._seconds_per_input = 0.0  # moving average
        self._last_batch_at = time.monotonic()
        self._active_inputs = 0
        self._preparer: threading.Thread | None = None  # prepares a batch: its search has not started
        self._idle_threads = 0
        self.watch = WorkerWatch()
        self._threads: set[threading.Thread] = set()  # started when there is work, ended when idle

    @property
    def queued_inputs(self) -> int:
        """Number of inputs in the queue."""
        return self._queue.size

    def submit(self, job: Job) -> None:
        """Add a job to the queue; an error if the queue is full or the server is shutting down."""
        with self._changed:
            if self._closing:
                raise ShuttingDown("the server is shutting down; use another one")
            self._make_room(job)
            if self.watch.overdue > MAX_OVERDUE_THREADS:
                raise WorkersOverdue("the workers of this run do not return; restart the server")
            self._queue.add(job)
            if self._collecting:  # waking the collecting thread for every request would cost more than it saves
                if self._queue.size >= self._max_inputs:
                    self._batch_full.notify()
            elif not self._is_preparing:
                self._wake_thread()

    def _make_room(self, job: Job) -> None:
        """Refuse a job if the queue is full, or else the newest jobs of a client that has queued more inputs."""
        while self._queue.size + job.size > self._max_queued:
            seconds = max(1, min(60, round(self._queue.size * self._seconds_per_input)))
            full = QueueFull(f"the queue is full ({self._queue.size} inputs); retry in {seconds} s", seconds)
            newest = self._queue.newest_of_largest_client
            if newest is None or not self._has_larger_share(newest, job):
                raise full
            self._queue.remove(newest)
            _fail([newest], full)

    def _has_larger_share(self, queued: Job, job: Job) -> bool:
        """Return True if the client of a queued job keeps at least as many inputs as that of a new one will have."""
        remaining = self._queue.client_size(queued.client) - queued.size
        return queued.client != job.client and remaining >= self._queue.client_size(job.client) + job.size

    def cancel(self, job: Job) -> None:
        """Cancel a job whose client has disconnected; an active batch is cancelled when all its jobs are."""
        with self._changed:
            job.cancelled = True
            self._queue.remove(job)

    def close(self) -> None:
        """Refuse new jobs; the queued ones are still predicted."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._batch_full.notify_all()

    def join(self, seconds: float) -> None:
        """Wait until all threads have ended, at most this many seconds."""
        deadline = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def _is_preparing(self) -> bool:
        """True if a thread prepares a batch and is not overdue."""
        return self._preparer is not None and not self.watch.is_overdue(self._preparer)

    def _wake_thread(self) -> None:
        """Wake an idle thread for the next batch, or start a new thread."""
        if not self._idle_threads and len(self._threads) - self.watch.overdue < self._max_batches:
            thread = threading.Thread(target=self._run, daemon=True)
            self._threads.add(thread)
            self._idle_threads += 1
            thread.start()
        self._changed.notify()

    def _run(self) -> None:
        """Predict batches until idle. If this thread dies, its requests fail and another thread takes its place."""
        worker = WorkerState()
        try:
            self._predict_batches(worker)
        except BaseException as error:
            self.watch.record_death(error)
            _fail(worker.jobs, error)
            with self._changed:
                self._collecting = False
                self._leave(worker)
                if self._queue.size and not self._closing:
                    self._wake_thread()

    def _leave(self, worker: WorkerState) -> None:
        """Remove the current thread from the counts."""
        self._idle_threads -= worker.is_idle
        self._active_inputs -= worker.size
        self._threads.discard(threading.current_thread())
        if self._preparer is threading.current_thread():
            self._preparer = None

    def _predict_batches(self, worker: WorkerState) -> None:
        after_idle = True  # the first request after idling: others may follow it shortly
        while True:
            with self._changed:
                after_idle = after_idle or not self._queue.size
                ready = self._changed.wait_for(self._is_ready, THREAD_IDLE_S)
                if not self._queue.size:
                    self._leave(worker)
                    return
                if not ready:
                    continue
                if after_idle and self._wait_s:
                    self._collect()
                jobs = [job for job in self._queue.take(self._max_inputs) if not job.is_expired]
                worker.start(jobs)
                self._active_inputs += worker.size
                self._idle_threads -= 1
                self._preparer = threading.current_thread()
                self.watch.begin(max((job.deadline for job in jobs), default=float("inf")))
            after_idle = False  # further requests collect in the queue while this batch is predicted
            preparation = PreparePhase(partial(self._end_preparation, threading.current_thread()))
            self._predict_batch(jobs, preparation.end)
            preparation.end()
            with self._changed:
                self.watch.end()
                self._active_inputs -= worker.size
                self._idle_threads += 1
                worker.end()
                self._changed.notify()

    def _collect(self) -> None:
        """Wait shortly for requests that arrive with the first one."""
        self._collecting = True
        self._batch_full.wait_for(lambda: self._queue.size >= self._max_inputs or self._closing, self._wait_s)
        self._collecting = False

    def _end_preparation(self, preparer: threading.Thread) -> None:
        """Let another thread prepare the next batch."""
        with self._changed:
            if self._preparer is preparer:  # else it was overdue and has been replaced
                self._preparer = None
            if self._queue.size:
                self._wake_thread()

    def _is_ready(self) -> bool:
        """Return True if the next batch may start, or if the scheduler is closing and the queue is empty."""
        if not self._queue.size:
            return self._closing
        if self._collecting or self._is_preparing:
            return False
        return not self._active_inputs or self._active_inputs + self._queue.first.size <= MAX_ACTIVE_INPUTS

    def _predict_batch(self, jobs: list[Job], on_search_start: Callable[[], None]) -> None:
        """Predict a batch. If it fails, predict each half separately, so that only the faulty request fails."""
        if not jobs:
            return
        request_indices = tuple(index for job in jobs for index in range(job.size))
        callbacks = BatchCallbacks(jobs[0].stream if len(jobs) == 1 else None, on_search_start, request_indices)
        try:
            with cancellable(lambda: _check_expired(jobs)):
                inputs = [parsed_input for job in jobs for parsed_input in job.inputs]
                predictions = iter(self._predict(inputs, jobs[0].options, jobs[0].decoding, callbacks))
                results = [[next(predictions) for _ in job.inputs] for job in jobs]
        except BaseException as error:  # any error belongs to one request, even a panic; the thread continues
            if len(jobs) == 1:
                _fail(jobs, error)
                return
            for half in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
                self._predict_batch([job for job in half if not job.is_expired], on_search_start)
            return
        self._record_batch(sum(job.size for job in jobs))
        for job, result in zip(jobs, results, strict=True):
            with suppress(InvalidStateError):  # cancelled in the meantime
                job.done.set_result(result)

    def _record_batch(self, size: int) -> None:
        now = time.monotonic()
        self._seconds_per_input = 0.9 * self._seconds_per_input + 0.1 * (now - self._last_batch_at) / size
        self._last_batch_at = now
        if self._on_batch is not None:
            self._on_batch(size)


@dataclass
class WorkerState:
    """The batch of a worker thread."""

    is_idle: bool = True
    size: int = 0  # inputs of its batch
    jobs: Sequence[Job] = ()

    def start(self, jobs: Sequence[Job]) -> None:
        """Note the batch that the thread predicts."""
        self.is_idle, self.size, self.jobs = False, sum(job.size for job in jobs), jobs

    def end(self) -> None:
        """Note that the batch is predicted."""
        self.is_idle, self.size, self.jobs = True, 0, ()


def _fail(jobs: Sequence[Job], error: BaseException) -> None:
    """Set an error as the outcome of jobs."""
    reported = error
    if not isinstance(error, Exception):  # the event loop would end with it
        reported = WorkerFailure(f"{type(error).__name__}: {error}")
    for job in jobs:
        with suppress(InvalidStateError):
            job.done.set_exception(reported)


class PreparePhase:
    """The time until the search of a batch starts, or until the batch is predicted; `end` takes effect once."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end: Callable[[], None] | None = on_end

    def end(self) -> None:
        """Call `on_end`, unless it has been called."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


def _check_expired(jobs: Sequence[Job]) -> None:
    """Raise Cancelled if all jobs of a batch are cancelled or late; called between the steps of long work."""
    if all(job.is_expired for job in jobs):
        raise Cancelled("the request was cancelled: no client waits for it")


class QueueItem(Protocol):
    """An item of a FairQueue."""

    @property
    def client(self) -> str: ...

    @property
    def batch_key(self) -> Hashable:
        """Items with equal keys may share a batch; None: alone."""

    @property
    def size(self) -> int:
        """Number of inputs."""


Item = TypeVar("Item", bound=QueueItem)


class FairQueue(Generic[Item]):
    """One queue per client, served round-robin, so that a client with many requests cannot delay the others."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[Item]] = OrderedDict()
        self.size = 0  # inputs in all queues

    @property
    def count(self) -> int:
        """Number of queued items."""
        return sum(map(len, self._queues.values()))

    @property
    def first(self) -> Item:
        """The item that is taken next."""
        return next(iter(self._queues.values()))[0]

    @property
    def newest_of_largest_client(self) -> Item | None:
        """The newest item of the client with the most queued inputs; None if the queue is empty."""
        largest = max(self._queues, key=self.client_size, default=None)
        return None if largest is None else self._queues[largest][-1]

    def client_size(self, client: str) -> int:
        """Return the number of queued inputs of a client."""
        return sum(item.size for item in self._queues.get(client, ()))

    def add(self, item: Item) -> None:
        """Append an item to the queue of its client."""
        self._queues.setdefault(item.client, deque()).append(item)
        self.size += item.size

    def remove(self, item: Item) -> bool:
        """Remove an item from any position; return False if it has been taken already."""
        queue = self._queues.get(item.client)
        if queue is None or item not in queue:
            return False
        self._remove(item)
        return True

    def take(self, max_inputs: int) -> list[Item]:
        """Take the next item, and others with its batch key, up to `max_inputs` inputs; [] if the queue is empty."""
        if not self._queues:
            return []
        first = self.first
        batch, remaining = [first], max_inputs - first.size
        if first.batch_key is not None:
            for item in self._round_robin():
                if remaining <= 0:
                    break
                if item is not first and item.batch_key == first.batch_key and item.size <= remaining:
                    batch.append(item)
                    remaining -= item.size
        self._queues.move_to_end(first.client)
        for item in batch:
            self._remove(item)
        return batch

    def _round_robin(self) -> Iterator[Item]:
        """Iterate over all items: the first of each client, then the second of each, and so on."""
        for items in zip_longest(*self._queues.values()):
            yield from (item for item in items if item is not None)

    def _remove(self, item: Item) -> None:
        self._queues[item.client].remove(item)
        self.size -= item.size
        if not self._queues[item.client]:
            del self._queues[item.client]
