"""The lock of a model: many shared holders, or one exclusive holder; both kinds alternate."""

from __future__ import annotations

import threading

import pytest

from regard.core.cancellation import Cancelled
from regard.serve.model_lock import ModelLock


def cancelled():
    raise Cancelled("cancelled")


def test_many_holders_share_the_lock_and_one_holds_it_alone():
    lock, entered = ModelLock(), threading.Event()
    with lock.shared(), lock.shared(), pytest.raises(Cancelled, match="cancelled"), lock.exclusive(cancelled):
        pass

    def share():
        with lock.shared():
            entered.set()

    thread = threading.Thread(target=share, daemon=True)
    with lock.exclusive():
        with pytest.raises(Cancelled), lock.exclusive(cancelled):
            pass
        thread.start()
        assert not entered.wait(0.05)
    assert entered.wait(5)
    thread.join(5)


def test_a_waiting_exclusive_holder_comes_before_later_shared_ones():
    lock, inside, leave, order = ModelLock(), threading.Event(), threading.Event(), []

    def first():
        with lock.shared():
            inside.set()
            leave.wait(10)

    def exclusive():
        with lock.exclusive():
            order.append("exclusive")

    def later():
        with lock.shared():
            order.append("later")

    threads = [threading.Thread(target=target, daemon=True) for target in (first, exclusive, later)]
    threads[0].start()
    assert inside.wait(5)
    threads[1].start()
    while not lock._exclusive_waiting:
        pass
    threads[2].start()
    leave.set()
    for thread in threads:
        thread.join(5)
    assert order == ["exclusive", "later"]


def test_inspections_and_predictions_alternate():
    """Continuous exclusive holders do not block shared ones."""
    lock, stop, finished = ModelLock(), threading.Event(), threading.Event()

    def inspect():
        while not stop.is_set():
            with lock.exclusive():
                pass

    def predict():
        for _ in range(20):
            with lock.shared():
                pass
        finished.set()

    threads = [threading.Thread(target=inspect, daemon=True) for _ in range(4)]
    threads.append(threading.Thread(target=predict, daemon=True))
    for thread in threads:
        thread.start()
    assert finished.wait(10)
    stop.set()
    for thread in threads:
        thread.join(5)
    assert not lock._admitted and not lock._shared_holders
