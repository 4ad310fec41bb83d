"""Many answers at once, or one look alone."""

from __future__ import annotations

import threading

from regard.serve.gate import Gate


def test_many_share_it_and_one_has_it_alone():
    gate = Gate()
    with gate.shared(), gate.shared():
        assert not gate.acquire(timeout=0.01)
    assert gate.acquire(timeout=0.01) and not gate.acquire(timeout=0.01)
    entered = threading.Event()

    def share():
        with gate.shared():
            entered.set()

    thread = threading.Thread(target=share, daemon=True)
    thread.start()
    assert not entered.wait(0.05)
    gate.release()
    assert entered.wait(5)
    thread.join(5)
    with gate:
        assert not gate.acquire(timeout=0.01)


def test_who_wants_it_alone_is_not_passed_by_those_who_come_later():
    gate, inside, order = Gate(), threading.Event(), []
    leaving = threading.Event()

    def long():
        with gate.shared():
            inside.set()
            leaving.wait(10)

    def alone():
        with gate:
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
