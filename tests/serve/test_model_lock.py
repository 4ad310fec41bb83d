"""Many answers at once, or one look alone."""

from __future__ import annotations

import threading

import pytest

from regard.core.cancellation import Cancelled
from regard.serve.model_lock import ModelLock


def no_longer():
    raise Cancelled("not wanted any more")


def test_many_share_it_and_one_has_it_alone():
    gate, entered = ModelLock(), threading.Event()
    with gate.shared(), gate.shared(), pytest.raises(Cancelled, match="not wanted any more"), gate.exclusive(no_longer):
        pass

    def share():
        with gate.shared():
            entered.set()

    thread = threading.Thread(target=share, daemon=True)
    with gate.exclusive():
        with pytest.raises(Cancelled), gate.exclusive(no_longer):
            pass
        thread.start()
        assert not entered.wait(0.05)
    assert entered.wait(5)
    thread.join(5)


def test_who_wants_it_alone_is_not_passed_by_those_who_come_later():
    gate, inside, leaving, order = ModelLock(), threading.Event(), threading.Event(), []

    def long():
        with gate.shared():
            inside.set()
            leaving.wait(10)

    def alone():
        with gate.exclusive():
            order.append("alone")

    def later():
        with gate.shared():
            order.append("later")

    threads = [threading.Thread(target=each, daemon=True) for each in (long, alone, later)]
    threads[0].start()
    assert inside.wait(5)
    threads[1].start()
    while not gate._wanting:
        pass
    threads[2].start()
    leaving.set()
    for thread in threads:
        thread.join(5)
    assert order == ["alone", "later"]


def test_looks_and_answers_take_turns():
    """However many want it alone, one after the other, whoever shares it is not kept out."""
    gate, over, answered = ModelLock(), threading.Event(), threading.Event()

    def look():
        while not over.is_set():
            with gate.exclusive():
                pass

    def answer():
        for _ in range(20):
            with gate.shared():
                pass
        answered.set()

    threads = [threading.Thread(target=look, daemon=True) for _ in range(4)]
    threads.append(threading.Thread(target=answer, daemon=True))
    for thread in threads:
        thread.start()
    assert answered.wait(10)
    over.set()
    for thread in threads:
        thread.join(5)
    assert not gate._invited and not gate._inside
