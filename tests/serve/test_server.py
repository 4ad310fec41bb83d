"""Start and stop of the server: the port, shutdown signals, worker processes, and the threads of torch."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import socket
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard.core import cpu
from regard.core.errors import RegardError
from regard.serve import server
from regard.serve.server import _bind_error, address, listen, on_shutdown_signal, set_torch_threads


def test_any_free_port():
    with listen("127.0.0.1", 0) as server_socket:
        port = server_socket.getsockname()[1]
        assert address(server_socket, "127.0.0.1") == f"http://127.0.0.1:{port}/"
        assert address(server_socket, "::1") == f"http://[::1]:{port}/"


def test_a_port_in_use():
    with listen("127.0.0.1", 0) as server_socket:
        port = server_socket.getsockname()[1]
        with pytest.raises(RegardError, match=rf"port {port} of 127.0.0.1 is in use; choose another: --port \d+"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 65536, 99999999999])
def test_an_invalid_port(port):
    with pytest.raises(RegardError, match=rf"port {port}: must be between 0 \(any free port\) and 65535"):
        listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no such host", "a..b", "x" * 300])
def test_an_unknown_host(host, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # without the network
    with pytest.raises(RegardError, match=r"unknown; use 127\.0\.0\.1, or 0\.0\.0\.0 for all interfaces"):
        listen(host, 0)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EACCES, "port 80 of h needs administrator rights; choose one above 1023: --port 8765"),
        (errno.EADDRNOTAVAIL, "host 'h' is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all"),
        (errno.EINVAL, "port 80 of h cannot be used (why); choose another with --port"),
    ],
)
def test_other_bind_errors(code, message):
    assert message in _bind_error(OSError(code, "why"), "h", 80)


def test_the_callback_of_a_signal_comes_before_the_previous_handler():
    calls = []
    previous = signal.signal(signal.SIGTERM, lambda *_: calls.append("handler"))
    try:
        with on_shutdown_signal(lambda: calls.append("callback")):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert calls == ["callback", "handler", "handler"]


def test_signal_handlers_are_not_changed_in_other_threads():
    handlers = []

    def enter():
        with on_shutdown_signal(lambda: None):
            handlers.append(signal.getsignal(signal.SIGTERM))

    previous = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [previous]


def test_workers_are_run_by_uvicorn(monkeypatch):
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    calls = []

    class Supervisor:
        def __init__(self, config, sockets):
            calls.append((config.app, config.factory, config.workers, sockets))

        def run(self):
            calls.append("run")

    monkeypatch.setattr("uvicorn.supervisors.Multiprocess", Supervisor)
    server.serve_in_processes(dict, "socket", count=3)
    (create, *settings), run = calls
    assert settings == [True, 3, ["socket"]] and run == "run"
    assert create() == {} and pickle.loads(pickle.dumps(create)) == create


def test_a_worker_that_dies_during_a_health_check_is_detected_immediately():
    """The timeout is for workers that are slow."""
    multiprocess = pytest.importorskip("uvicorn.supervisors.multiprocess", reason="uvicorn is not installed")
    process = multiprocess.Process(SimpleNamespace(), [])
    process.process = SimpleNamespace(is_alive=lambda: True)  # killed a moment later
    worker_end = os.dup(process.child_conn.fileno())
    supervisor = object.__new__(server._supervisor_class())
    supervisor.processes = [process]
    supervisor._close_child_ends()
    os.close(worker_end)
    started_at = time.monotonic()
    assert not process.is_alive(timeout=120) and time.monotonic() - started_at < 60


def test_a_worker_ends_when_its_parent_has_died(monkeypatch):
    parent_died, ended = threading.Event(), threading.Event()
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(join=parent_died.wait))
    monkeypatch.setattr("os.kill", lambda *args: args == (os.getpid(), signal.SIGTERM) and ended.set())
    assert server.WorkerFactory(dict)() == {} and not ended.is_set()
    parent_died.set()
    assert ended.wait(10)


def test_threads_are_for_wide_models_and_divided_between_workers(monkeypatch):
    thread_counts = []
    monkeypatch.setattr(torch, "set_num_threads", thread_counts.append)
    monkeypatch.setattr(cpu, "available_cores", lambda: 8)
    narrow, wide = nn.Linear(8, 8), nn.Linear(cpu.MIN_PARALLEL_DIM, cpu.MIN_PARALLEL_DIM)
    for models, processes in (([narrow], 1), ([narrow, wide], 1), ([wide], 2), ([wide], 100), ([], 1)):
        set_torch_threads(models, processes=processes)
    assert thread_counts == [1, 8, 4, 1, 1]
