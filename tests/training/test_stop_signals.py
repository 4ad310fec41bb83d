"""Signals request a stop; a second Ctrl-C interrupts immediately; other threads are not affected."""

from __future__ import annotations

import signal
import threading

import pytest

from regard.training.stop_signals import Interrupted, handle_signals


def test_one_signal_is_noted_and_a_second_ctrl_c_interrupts():
    with handle_signals() as stop:
        assert not stop
        signal.raise_signal(signal.SIGINT)
        assert stop and stop.reason == "SIGINT"
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with handle_signals():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_elsewhere_than_in_the_main_thread_nothing_asks():
    stopped = []

    def work():
        with handle_signals() as stop:
            stopped.append(bool(stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert stopped == [False]


def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_signals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("reason", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("another process", 1), (None, 1)])
def test_the_exit_code_says_what_ended_it(reason, code):
    assert Interrupted("stopped, all is saved", reason).code == code
