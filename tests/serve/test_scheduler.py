"""The scheduler: requests are batched, errors stay with their request, the queue is bounded and fair, threads end."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from regard.core.cancellation import Cancelled, check_cancelled
from regard.core.errors import DataError
from regard.core.task import Prediction
from regard.serve import worker_watch
from regard.serve.scheduler import (
    CONTINUOUS,
    BatchingPolicy,
    FairQueue,
    Job,
    QueueFull,
    RequestScheduler,
    ShuttingDown,
    WorkerFailure,
    WorkersOverdue,
)


class Predict:
    """Predicts texts in capitals; "bad" is an invalid input, "worse" an internal error. Waits for `go`, and records
    the batches."""

    def __init__(self):
        self.go, self.started, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, inputs, options, decoding, callbacks):
        self.started.set()
        assert self.go.wait(10)
        self.batches.append(list(inputs))
        if "bad" in inputs:
            raise DataError("bad input")
        if "worse" in inputs:
            raise ZeroDivisionError
        return [[Prediction(text.upper())] for text in inputs]


@pytest.fixture
def predict():
    return Predict()


def submit_blocking(scheduler, predict):
    """Submit a job that is active until `predict.go` is set."""
    first = Job(["first"], None, None)
    scheduler.submit(first)
    assert predict.started.wait(10)
    return first


def texts(job):
    return [predictions[0].text for predictions in job.done.result(10)]


def test_equal_requests_share_a_batch_and_each_gets_its_own_result(predict):
    scheduler = RequestScheduler(predict)
    first = submit_blocking(scheduler, predict)
    jobs = [Job([f"{index}", "x"], None, None, client=str(index)) for index in range(3)]
    different = Job(["different"], "another option", None)
    sampling = [Job(["sample"], SimpleNamespace(seed=1), None) for _ in range(2)]
    for job in (*jobs, different, *sampling):
        scheduler.submit(job)
    assert scheduler.queued_inputs == 9
    predict.go.set()
    assert texts(first) == ["FIRST"] and [texts(job) for job in jobs] == [["0", "X"], ["1", "X"], ["2", "X"]]
    assert texts(different) == ["DIFFERENT"] and [texts(job) for job in sampling] == [["SAMPLE"]] * 2
    sizes = sorted(len(batch) for batch in predict.batches)
    assert sizes == [1, 1, 1, 1, 6]  # sampling requests are alone: their result must not depend on other requests


@pytest.mark.parametrize("setting", ["options", "decoding"])
def test_a_request_with_a_seed_has_no_batch_key(setting):
    options = SimpleNamespace(seed=1) if setting == "options" else SimpleNamespace()
    decoding = SimpleNamespace(has_setting=lambda name: name == "seed") if setting == "decoding" else None
    assert Job(["a"], options, decoding).batch_key is None
    assert Job(["a"], options, decoding, samples_by_index=True).batch_key == (options, decoding)


def test_requests_whose_samples_depend_on_their_own_indices_are_batched():
    go, calls = threading.Event(), []

    def predict(inputs, options, decoding, callbacks):
        assert go.wait(10)
        calls.append((list(inputs), options.seed, callbacks.request_indices))
        return [[Prediction(text)] for text in inputs]

    scheduler = RequestScheduler(predict)
    scheduler.submit(Job(["first"], SimpleNamespace(seed=0), None))
    while scheduler.queued_inputs:
        time.sleep(0.001)
    options = SimpleNamespace(seed=1)
    jobs = [Job([f"{index}", "x"][: 1 + index % 2], options, None, samples_by_index=True) for index in range(3)]
    different = Job(["different"], SimpleNamespace(seed=2), None, samples_by_index=True)
    for job in (*jobs, different):
        scheduler.submit(job)
    go.set()
    assert [texts(job) for job in (*jobs, different)] == [["0"], ["1", "x"], ["2"], ["different"]]
    assert calls[1:] == [(["0", "1", "x", "2"], 1, (0, 0, 1, 0)), (["different"], 2, (0,))]


def test_a_full_batch_starts_immediately_while_requests_are_collected(monkeypatch):
    monkeypatch.setattr("regard.serve.scheduler.THREAD_IDLE_S", 0.5)
    sizes = []

    def predict(inputs, *_):
        sizes.append(len(inputs))
        return [[Prediction(text)] for text in inputs]

    scheduler = RequestScheduler(predict, BatchingPolicy(2, 8, 600.0))
    started_at, jobs = time.monotonic(), [Job([str(index)], None, None) for index in range(8)]
    for job in jobs:
        scheduler.submit(job)
    assert [texts(job) for job in jobs] == [[str(index)] for index in range(8)]
    assert sizes == [8] and time.monotonic() - started_at < 300
    scheduler.submit(Job(["late"], None, None))
    scheduler.close()  # ends the collection of a batch
    scheduler.join(300)
    assert sizes == [8, 1]


def test_an_error_fails_only_its_own_request(predict):
    scheduler = RequestScheduler(predict)
    submit_blocking(scheduler, predict)
    jobs = [Job([text], None, None) for text in ("good", "bad", "worse", "fine")]
    for job in jobs:
        scheduler.submit(job)
    predict.go.set()
    assert texts(jobs[0]) == ["GOOD"] and texts(jobs[3]) == ["FINE"]
    with pytest.raises(DataError, match="bad input"):
        jobs[1].done.result(10)
    with pytest.raises(ZeroDivisionError):
        jobs[2].done.result(10)


def test_the_faulty_request_of_a_large_batch_is_isolated_by_bisection(predict):
    scheduler = RequestScheduler(predict)
    submit_blocking(scheduler, predict)
    jobs = [Job(["bad" if index == 13 else str(index)], None, None) for index in range(32)]
    for job in jobs:
        scheduler.submit(job)
    predict.go.set()
    assert [texts(job) for job in jobs if job.inputs != ["bad"]] == [[str(n)] for n in range(32) if n != 13]
    with pytest.raises(DataError, match="bad input"):
        jobs[13].done.result(10)
    assert len(predict.batches) == 1 + 11  # the first, then 32, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1


def test_a_full_queue_says_when_to_retry(predict):
    scheduler = RequestScheduler(predict, max_queued=3)
    submit_blocking(scheduler, predict)
    scheduler.submit(Job(["a", "b"], None, None))
    with pytest.raises(QueueFull, match=r"the queue is full \(2 inputs\); retry in 1 s") as error:
        scheduler.submit(Job(["c", "d"], None, None))
    assert error.value.seconds == 1
    scheduler.submit(Job(["c"], None, None))
    predict.go.set()


def test_cancelled_and_late_requests_are_not_predicted(predict):
    scheduler = RequestScheduler(predict)
    submit_blocking(scheduler, predict)
    cancelled = Job(["cancelled"], 1, None)
    late = Job(["late"], 2, None, deadline=time.monotonic() - 1)
    waiting = Job(["waiting"], 3, None)
    for job in (cancelled, late, waiting):
        scheduler.submit(job)
    scheduler.cancel(cancelled)
    predict.go.set()
    assert texts(waiting) == ["WAITING"] and predict.batches == [["first"], ["waiting"]]


def test_active_work_is_cancelled_with_its_request():
    started = threading.Event()

    def endless(*_):
        started.set()
        while True:
            time.sleep(0.005)
            check_cancelled()

    scheduler, job = RequestScheduler(endless), Job(["a"], None, None)
    scheduler.submit(job)
    assert started.wait(10)
    scheduler.cancel(job)
    with pytest.raises(Cancelled, match="the request was cancelled: no client waits for it"):
        job.done.result(10)


def test_on_close_queued_requests_are_predicted_and_new_ones_refused(predict):
    scheduler = RequestScheduler(predict)
    submit_blocking(scheduler, predict)
    job = Job(["last"], 1, None)
    scheduler.submit(job)
    scheduler.close()
    with pytest.raises(ShuttingDown, match="the server is shutting down; use another one"):
        scheduler.submit(Job(["more"], None, None))
    predict.go.set()
    assert texts(job) == ["LAST"]
    scheduler.join(10)
    assert not any(thread.is_alive() for thread in scheduler._threads)


def test_with_continuous_batching_the_next_batch_is_prepared_during_a_search():
    """The first request waits in its search; later ones form one batch, which is predicted before it."""
    start_search, go, started, batches = threading.Event(), threading.Event(), [], []

    def predict(inputs, options, decoding, callbacks):
        batches.append(list(inputs))
        if "first" in inputs:
            started.append("first")
            assert start_search.wait(10)
            callbacks.on_search_start()
            callbacks.on_search_start()  # some tasks search twice
            assert go.wait(10)
        return [[Prediction(text)] for text in inputs]

    scheduler, first = RequestScheduler(predict, CONTINUOUS), Job(["first"], None, None)
    scheduler.submit(first)
    while not started:
        time.sleep(0.001)
    jobs = [Job([str(index)], None, None) for index in range(3)]
    for job in jobs:
        scheduler.submit(job)
    time.sleep(0.02)
    assert batches == [["first"]]  # one batch is prepared at a time
    start_search.set()
    assert [texts(job) for job in jobs] == [["0"], ["1"], ["2"]] and not first.done.done()
    assert batches[1:] == [["0", "1", "2"]]
    go.set()
    assert texts(first) == ["first"]
    scheduler.close()
    scheduler.join(10)
    assert not scheduler._threads


def test_streaming_requests_are_alone_and_the_number_of_threads_is_limited():
    calls = []

    def predict(inputs, options, decoding, callbacks):
        calls.append((len(inputs), callbacks.stream))
        callbacks.on_search_start()
        time.sleep(0.005)
        return [[Prediction(text)] for text in inputs]

    scheduler = RequestScheduler(predict, CONTINUOUS)
    jobs = [Job([str(index)], None, None, stream=object()) for index in range(100)]
    for job in jobs:
        scheduler.submit(job)
    assert [texts(job) for job in jobs] == [[str(index)] for index in range(100)]
    assert {size for size, _ in calls} == {1} and [stream for _, stream in calls] == [job.stream for job in jobs]
    assert len(scheduler._threads) <= 64
    scheduler.close()


@dataclass(eq=False)
class Item:
    client: str
    batch_key: Any = "same"
    size: int = 1


def queue_of(*items: Item) -> FairQueue[Item]:
    queue: FairQueue[Item] = FairQueue()
    for item in items:
        queue.add(item)
    return queue


def test_items_with_equal_keys_are_taken_together_up_to_a_number_of_inputs():
    first, different, large, last = Item("a"), Item("b", "another"), Item("a", size=5), Item("c", size=2)
    queue = queue_of(first, different, large, last)
    assert (queue.size, queue.count) == (9, 4) and queue.take(3) == [first, last]
    assert queue.take(3) == [different] and queue.take(3) == [large]
    assert queue.take(3) == [] and queue.size == 0


def test_a_client_with_many_requests_does_not_delay_others():
    many = [Item("busy", batch_key=None) for _ in range(3)]
    queue = queue_of(*many)
    queue.add(late := Item("quiet", batch_key=None))
    assert [queue.take(9) for _ in range(4)] == [[many[0]], [late], [many[1]], [many[2]]]


def test_a_removed_item_is_not_taken():
    first, second = Item("a"), Item("b")
    queue = queue_of(first, second)
    assert queue.remove(first) and not queue.remove(first)
    assert queue.first is second and queue.take(2) == [second] and not queue.remove(second)


class PanicException(BaseException):  # the name that pyo3 uses
    """As raised by a Rust library."""


def test_a_panic_is_an_error_of_its_request_and_the_next_request_is_predicted():
    def predict(inputs, *_):
        if "panic" in inputs:
            raise PanicException("regex")
        return [[Prediction(text.upper())] for text in inputs]

    for policy in (BatchingPolicy(1, 64, 0.0), CONTINUOUS):
        scheduler = RequestScheduler(predict, policy)
        for _ in range(3):
            broken, good = Job(["panic"], None, None), Job(["good"], None, None)
            scheduler.submit(broken)
            scheduler.submit(good)
            with pytest.raises(WorkerFailure, match="PanicException: regex"):
                broken.done.result(10)
            assert texts(good) == ["GOOD"]
        assert scheduler.watch.restarts == scheduler.watch.overdue == 0


def test_a_thread_that_dies_is_replaced(monkeypatch):
    def predict(inputs, *_):
        return [[Prediction(text.upper())] for text in inputs]

    scheduler = RequestScheduler(predict, BatchingPolicy(1, 64, 0.0))
    failures = [PanicException("bug")]

    def fail_once(*_):
        if failures:
            raise failures.pop()

    monkeypatch.setattr(scheduler, "_record_batch", fail_once)
    job = Job(["first"], None, None)
    scheduler.submit(job)
    with pytest.raises(WorkerFailure):
        job.done.result(10)
    second = Job(["second"], None, None)
    scheduler.submit(second)
    assert texts(second) == ["SECOND"] and scheduler.watch.restarts == 1
    assert scheduler._active_inputs == 0


def test_a_thread_that_does_not_return_is_abandoned_and_another_serves(monkeypatch):
    monkeypatch.setattr(worker_watch, "GRACE_S", 0.0)
    release = threading.Event()

    def predict(inputs, *_):
        if "endless" in inputs:
            release.wait(20)
        return [[Prediction(text.upper())] for text in inputs]

    scheduler = RequestScheduler(predict, BatchingPolicy(1, 64, 0.0))
    scheduler.submit(Job(["endless"], None, None, deadline=time.monotonic() + 0.1))
    time.sleep(0.3)
    assert scheduler.watch.overdue == 1
    second = Job(["second"], None, None)
    scheduler.submit(second)
    assert texts(second) == ["SECOND"]
    release.set()


def test_many_threads_that_do_not_return_stop_the_run(monkeypatch):
    monkeypatch.setattr(worker_watch, "GRACE_S", -100.0)
    scheduler = RequestScheduler(lambda *_: [], BatchingPolicy(1, 64, 0.0))
    for _ in range(5):
        thread = threading.Thread(target=scheduler.watch.begin, args=(time.monotonic(),))
        thread.start()
        thread.join()
    with pytest.raises(WorkersOverdue, match="the workers of this run do not return; restart the server"):
        scheduler.submit(Job(["a"], None, None))


def test_a_full_queue_refuses_the_client_with_the_most_inputs(predict):
    scheduler = RequestScheduler(predict, BatchingPolicy(1, 1, 0.0), max_queued=4)
    submit_blocking(scheduler, predict)
    greedy = [Job([f"greedy {index}"], None, None, "greedy") for index in range(4)]
    for job in greedy:
        scheduler.submit(job)
    with pytest.raises(QueueFull):
        scheduler.submit(Job(["more"], None, None, "greedy"))
    others = [Job(["other"], None, None, "other") for _ in range(2)]
    for job in others:
        scheduler.submit(job)
    with pytest.raises(QueueFull):  # both have an equal share
        scheduler.submit(Job(["more"], None, None, "other"))
    for job in greedy[2:]:
        with pytest.raises(QueueFull):
            job.done.result(0)
    predict.go.set()
    assert [texts(job) for job in (*greedy[:2], *others)] == [["GREEDY 0"], ["GREEDY 1"], ["OTHER"], ["OTHER"]]
