"""The line of a run: batches of what asks for the same, errors that stay with whose they are, a bound, an end."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from regard.core.cancellation import Cancelled, check_cancelled
from regard.core.errors import DataError
from regard.core.task import Prediction
from regard.serve.scheduler import CONTINUOUS, BatchingPolicy, Job, QueueFull, RequestScheduler, ShuttingDown


class Work:
    """Answers in capitals; "bad" is a mistake, "worse" one of ours. Waits for `go`, and keeps what it was given."""

    def __init__(self):
        self.go, self.begun, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, inputs, options, decoding, hearing):
        self.begun.set()
        assert self.go.wait(10)
        self.batches.append(list(inputs))
        if "bad" in inputs:
            raise DataError("bad input")
        if "worse" in inputs:
            raise ZeroDivisionError
        return [[Prediction(text.upper())] for text in inputs]


@pytest.fixture
def work():
    return Work()


def held(line, work):
    """A job that is under way and waits for `work.go`."""
    first = Job(["first"], None, None)
    line.submit(first)
    assert work.begun.wait(10)
    return first


def texts(job):
    return [answers[0].text for answers in job.done.result(10)]


def test_what_asks_for_the_same_is_answered_together_and_everybody_gets_their_own(work):
    line = RequestScheduler(work)
    first = held(line, work)
    jobs = [Job([f"{number}", "x"], None, None, client=str(number)) for number in range(3)]
    other = Job(["other"], "another option", None)
    draws = [Job(["drawn"], SimpleNamespace(seed=1), None) for _ in range(2)]
    for job in (*jobs, other, *draws):
        line.submit(job)
    assert line.queued_inputs == 9
    work.go.set()
    assert texts(first) == ["FIRST"] and [texts(job) for job in jobs] == [["0", "X"], ["1", "X"], ["2", "X"]]
    assert texts(other) == ["OTHER"] and [texts(job) for job in draws] == [["DRAWN"]] * 2
    sizes = sorted(len(batch) for batch in work.batches)
    assert sizes == [1, 1, 1, 1, 6]  # whoever draws is alone: the answer to a seed does not hang on others


def test_who_draws_by_places_of_their_own_is_answered_with_others_who_ask_for_the_same():
    go, seen = threading.Event(), []

    def work(inputs, options, decoding, listener):
        assert go.wait(10)
        seen.append((list(inputs), options.seed, listener.places))
        return [[Prediction(text)] for text in inputs]

    line = RequestScheduler(work)
    line.submit(Job(["first"], SimpleNamespace(seed=0), None))
    while line.queued_inputs:
        time.sleep(0.001)
    same = SimpleNamespace(seed=1)
    jobs = [Job([f"{number}", "x"][: 1 + number % 2], same, None, samples_by_index=True) for number in range(3)]
    other = Job(["other"], SimpleNamespace(seed=2), None, samples_by_index=True)
    for job in (*jobs, other):
        line.submit(job)
    go.set()
    assert [texts(job) for job in (*jobs, other)] == [["0"], ["1", "x"], ["2"], ["other"]]
    assert seen[1:] == [(["0", "1", "x", "2"], 1, (0, 0, 1, 0)), (["other"], 2, (0,))]


def test_while_a_batch_is_gathered_a_full_one_begins_at_once(monkeypatch):
    monkeypatch.setattr("regard.serve.scheduler.IDLE", 0.5)
    sizes = []

    def work(inputs, *_):
        sizes.append(len(inputs))
        return [[Prediction(text)] for text in inputs]

    line = RequestScheduler(work, BatchingPolicy(2, 8, 600.0))
    begun, jobs = time.monotonic(), [Job([str(number)], None, None) for number in range(8)]
    for job in jobs:
        line.submit(job)
    assert [texts(job) for job in jobs] == [[str(number)] for number in range(8)]
    assert sizes == [8] and time.monotonic() - begun < 300
    line.submit(Job(["late"], None, None))
    line.close()  # nor is what gathers waited for when the server ends
    line.join(300)
    assert sizes == [8, 1]


def test_the_mistake_of_one_is_not_the_others(work):
    line = RequestScheduler(work)
    held(line, work)
    jobs = [Job([text], None, None) for text in ("good", "bad", "worse", "fine")]
    for job in jobs:
        line.submit(job)
    work.go.set()
    assert texts(jobs[0]) == ["GOOD"] and texts(jobs[3]) == ["FINE"]
    with pytest.raises(DataError, match="bad input"):
        jobs[1].done.result(10)
    with pytest.raises(ZeroDivisionError):
        jobs[2].done.result(10)


def test_a_full_line_says_when_to_come_again(work):
    line = RequestScheduler(work, queue=3)
    held(line, work)
    line.submit(Job(["a", "b"], None, None))
    with pytest.raises(QueueFull, match="2 inputs wait for an answer; come again in 1 s") as busy:
        line.submit(Job(["c", "d"], None, None))
    assert busy.value.seconds == 1
    line.submit(Job(["c"], None, None))
    work.go.set()


def test_who_has_gone_or_is_late_is_not_answered(work):
    line = RequestScheduler(work)
    held(line, work)
    gone, late, there = (
        Job(["gone"], 1, None),
        Job(["late"], 2, None, deadline=time.monotonic() - 1),
        Job(["there"], 3, None),
    )
    for job in (gone, late, there):
        line.submit(job)
    line.cancel(gone)
    work.go.set()
    assert texts(there) == ["THERE"] and work.batches == [["first"], ["there"]]


def test_work_that_nobody_waits_for_is_given_up():
    begun = threading.Event()

    def endless(*_):
        begun.set()
        while True:
            time.sleep(0.005)
            check_cancelled()

    line, job = RequestScheduler(endless), Job(["a"], None, None)
    line.submit(job)
    assert begun.wait(10)
    line.cancel(job)
    with pytest.raises(Cancelled, match="nobody waits for the answer any more"):
        job.done.result(10)


def test_at_the_end_what_waits_is_answered_and_nothing_more_is_taken(work):
    line = RequestScheduler(work)
    held(line, work)
    job = Job(["last"], 1, None)
    line.submit(job)
    line.close()
    with pytest.raises(ShuttingDown, match="the server has been told to end; ask another one"):
        line.submit(Job(["more"], None, None))
    work.go.set()
    assert texts(job) == ["LAST"]
    line.join(10)
    assert not any(thread.is_alive() for thread in line._threads)


def test_where_searches_are_joined_the_next_batch_is_prepared_while_one_is_searched_for():
    """The first waits in its search; those that came meanwhile are one batch, answered before it."""
    come, go, begun, batches = threading.Event(), threading.Event(), [], []

    def work(inputs, options, decoding, listener):
        batches.append(list(inputs))
        if "first" in inputs:
            begun.append("first")
            assert come.wait(10)
            listener.begun()
            listener.begun()  # some search twice
            assert go.wait(10)
        return [[Prediction(text)] for text in inputs]

    line, first = RequestScheduler(work, CONTINUOUS), Job(["first"], None, None)
    line.submit(first)
    while not begun:
        time.sleep(0.001)
    jobs = [Job([str(number)], None, None) for number in range(3)]
    for job in jobs:
        line.submit(job)
    time.sleep(0.02)
    assert batches == [["first"]]  # one is prepared at a time
    come.set()
    assert [texts(job) for job in jobs] == [["0"], ["1"], ["2"]] and not first.done.done()
    assert batches[1:] == [["0", "1", "2"]]
    go.set()
    assert texts(first) == ["first"]
    line.close()
    line.join(10)
    assert not line._threads


def test_who_reads_along_or_draws_is_alone_and_threads_do_not_grow_without_bound():
    seen = []

    def work(inputs, options, decoding, listener):
        seen.append((len(inputs), listener.hearing))
        listener.begun()
        time.sleep(0.005)
        return [[Prediction(text)] for text in inputs]

    line = RequestScheduler(work, CONTINUOUS)
    jobs = [Job([str(number)], None, None, stream=object()) for number in range(100)]
    for job in jobs:
        line.submit(job)
    assert [texts(job) for job in jobs] == [[str(number)] for number in range(100)]
    assert {size for size, _ in seen} == {1} and [each for _, each in seen] == [job.stream for job in jobs]
    assert len(line._threads) <= 64
    line.close()


def test_in_a_large_batch_the_wrong_one_is_found_by_halves(work):
    line = RequestScheduler(work)
    held(line, work)
    jobs = [Job(["bad" if number == 13 else str(number)], None, None) for number in range(32)]
    for job in jobs:
        line.submit(job)
    work.go.set()
    assert [texts(job) for job in jobs if job.inputs != ["bad"]] == [[str(n)] for n in range(32) if n != 13]
    with pytest.raises(DataError, match="bad input"):
        jobs[13].done.result(10)
    assert len(work.batches) == 1 + 11  # the first, then 32, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1
