"""A signal that ends the server is heard before the server's own handler, in the main thread alone."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from regard.serve import server
from regard.serve.server import on_shutdown_signal


def test_a_signal_is_heard_first_and_then_handled():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("handled"))
    try:
        with on_shutdown_signal(lambda: heard.append("told")):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["told", "handled", "handled"]


def test_elsewhere_signals_are_left_alone():
    seen = []

    def inside():
        with on_shutdown_signal(seen.append):
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]


def test_several_processes_are_the_server_library_s_own(monkeypatch):
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    started = []

    class Supervisor:
        def __init__(self, config, sockets):
            started.append((config.app, config.factory, config.workers, sockets))

        def run(self):
            started.append("run")

    monkeypatch.setattr("uvicorn.supervisors.Multiprocess", Supervisor)
    server.serve_in_processes(dict, "socket", count=3)
    (make, *rest), run = started
    assert rest == [True, 3, ["socket"]] and run == "run"
    assert make() == {} and pickle.loads(pickle.dumps(make)) == make


def test_a_process_that_dies_while_it_is_asked_is_missed_at_once():
    """Half a minute is for one that is slow."""
    multiprocess = pytest.importorskip("uvicorn.supervisors.multiprocess", reason="uvicorn is not installed")
    process = multiprocess.Process(SimpleNamespace(), [])
    process.process = SimpleNamespace(is_alive=lambda: True)  # killed a moment later
    other = os.dup(process.child_conn.fileno())  # the one that the process has
    watching = object.__new__(server._watching())
    watching.processes = [process]
    watching._let_go()
    os.close(other)
    began = time.monotonic()
    assert not process.is_alive(timeout=120) and time.monotonic() - began < 60


def test_a_process_of_several_ends_when_nobody_is_left_who_started_it(monkeypatch):
    gone, ended = threading.Event(), threading.Event()
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(join=gone.wait))
    monkeypatch.setattr("os.kill", lambda number, sent: (number, sent) == (os.getpid(), signal.SIGTERM) and ended.set())
    assert server.WorkerFactory(dict)() == {} and not ended.is_set()
    gone.set()
    assert ended.wait(10)
