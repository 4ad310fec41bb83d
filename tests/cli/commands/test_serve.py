"""`regard serve`: serve runs on this machine only, unless another host is named."""

from __future__ import annotations

import http.client
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from run_cli import call

from regard.serve.server import listen


@pytest.fixture
def free_port():
    """A port that is not in use."""
    with listen("127.0.0.1", 0) as bound:
        return bound.getsockname()[1]


def test_runs_are_served_on_the_given_host_and_port(small, free_port, tmp_path, monkeypatch, capsys):
    created, served = [], []

    def create_app(runs, text, *, host, key, inspections_folder):
        assert inspections_folder is None
        created.append(([run.name for run in runs], text, host, key))
        return SimpleNamespace(state=SimpleNamespace(service=SimpleNamespace(hosted=runs)))

    monkeypatch.setattr("regard.serve.app.create_app", create_app)
    monkeypatch.setattr("regard.serve.server.serve", lambda app, bound: served.append(bound.getsockname()))
    call("serve", small, "--port", free_port)
    monkeypatch.setenv("REGARD_KEY", "sesame")
    call("serve", small, tmp_path / "none", small, "--input", "They sleep.", "--host", "0.0.0.0", "--port", free_port)
    assert created == [
        ([small.name], None, "127.0.0.1", ""),
        ([small.name, f"{small.name}-2"], "They sleep.", "0.0.0.0", "sesame"),
    ]
    assert served == [("127.0.0.1", free_port), ("0.0.0.0", free_port)]
    printed = capsys.readouterr()
    assert f"serving {small.name} on http://127.0.0.1:{free_port}/" in printed.out
    assert f"regard: {tmp_path / 'none'} is not served: " in printed.err and printed.err.count("\n") == 1


def test_several_processes_serve_the_runs_that_load(small, free_port, tmp_path, monkeypatch, capsys):
    """The runs are loaded in this process; the next test starts the real processes."""
    started = []
    monkeypatch.setattr("regard.serve.server.ProcessPoolExecutor", lambda count, **_: ThreadPoolExecutor(count))
    monkeypatch.setattr("regard.serve.server.serve_in_processes", lambda make, _, count: started.append((make, count)))
    call("serve", small, tmp_path / "none", "--workers", "2", "--port", free_port)
    ((app_factory, count),) = started
    assert count == app_factory.processes == 2 and app_factory.folders == (small,)
    assert pickle.loads(pickle.dumps(app_factory)) == app_factory and not app_factory.shared.exists()
    printed = capsys.readouterr()
    assert f"serving {small.name} with 2 processes on http://127.0.0.1:{free_port}/" in printed.out
    assert f"{tmp_path / 'none'} is not served: " in printed.err and printed.err.count("\n") == 1
    for args, message in (
        ([small, "--workers", "0"], "--workers 0: give the number of processes, 1 or more"),
        ([tmp_path / "a", tmp_path / "b", "--workers", "2"], "no run to serve; name a run folder"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("serve", *args, "--port", free_port)
        assert stop.value.code == 1 and message in capsys.readouterr().err
    assert len(started) == 1


def request(port, path, body=None):
    """Send a request on a new connection, so that any process may respond -> status, body."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=150)) as connection:
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()


def workers_of(pid):
    """Return the ids of the worker processes of a server."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [child for child in map(int, children) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def wait_for_two_workers(pid, without=0):
    """Return the ids of two workers, none of them `without`, as soon as there are two."""
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        workers = workers_of(pid)
        if len(workers) == 2 and without not in workers:
            return workers
        time.sleep(0.1)
    raise AssertionError(f"the workers are {workers_of(pid)}")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="worker processes are listed in /proc")
def test_several_processes_share_the_port_and_a_dead_one_is_replaced(small):
    command = [sys.executable, "-m", "regard", "serve", str(small), "--port", "0", "--workers", "2"]
    body = {"inputs": ["They sleep."]}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, **pipes) as server:
        try:
            port = int(server.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
            responses = {request(port, "/v1/translate", body) for _ in range(20)}
            assert len(responses) == 1 and next(iter(responses))[0] == 200
            look = json.loads(request(port, "/v1/look", {"input": "They sleep."})[1])["id"]
            tile = f"/api/tile?look={look}&map=0&head=0&level=0&i=0&j=0"
            assert len({request(port, tile) for _ in range(10)}) == 1  # from any worker
            counted = 'regard_requests_total{run="small",status="200",verb="translate"} 20.0'
            assert all(counted in request(port, "/metrics")[1].decode() for _ in range(6))
            first, second = wait_for_two_workers(server.pid)
            os.kill(first, signal.SIGKILL)
            assert second in wait_for_two_workers(server.pid, without=first)
            assert request(port, "/v1/translate", body) in responses
            assert (
                'verb="translate"} 21.0' in request(port, "/metrics")[1].decode()
            )  # the counts of the dead worker remain
            workers = workers_of(server.pid)
            server.send_signal(signal.SIGTERM)
            assert "Traceback" not in server.communicate(timeout=150)[1]
        finally:
            server.kill()
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_the_error_says_why_no_run_can_be_served(tmp_path, free_port, capsys):
    for args, message in (
        ([tmp_path / "a"], "no such run"),
        ([tmp_path / "a", tmp_path / "b"], "no run to serve"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("serve", *args, "--port", free_port)
        assert stop.value.code == 1 and message in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", " ", "sesame "])
def test_an_empty_key_is_an_error(small, free_port, monkeypatch, capsys, key):
    monkeypatch.setenv("REGARD_KEY", key)
    with pytest.raises(SystemExit) as stop:
        call("serve", small, "--port", free_port)
    message = "REGARD_KEY is empty or has spaces at its ends; set a key, or unset the variable to require none"
    assert stop.value.code == 1 and capsys.readouterr().err == f"regard: {message}\n"


def test_an_unavailable_port_is_reported_first(small, tmp_path, capsys):
    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        cases = {
            ("serve", small, "--port", port): f"port {port} of 127.0.0.1 is in use; choose another: --port ",
            ("look", small, "They sleep.", "--port", port): f"port {port} of 127.0.0.1 is in use; choose another",
            ("serve", small, "--port", 70000): "port 70000: must be between 0 (any free port) and 65535",
            ("look", small, "They sleep.", "--port", 70000): "port 70000: must be between 0",
        }
        for args, message in cases.items():
            with pytest.raises(SystemExit) as stop:
                call(*args)
            printed = capsys.readouterr()
            assert stop.value.code == 1 and message in printed.err and printed.err.count("\n") == 1
            assert not printed.out


def test_sigterm_stops_the_server_while_requests_are_incomplete(small):
    command = [sys.executable, "-m", "regard", "serve", str(small), "--port", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as server:
        try:
            first_line = server.stdout.readline()
            port = int(first_line.partition("127.0.0.1:")[2].partition("/")[0])
            assert request(port, "/health")[0] == 200  # the server has started and handles signals
            with (
                socket.create_connection(("127.0.0.1", port)) as head,
                socket.create_connection(("127.0.0.1", port)) as body,
            ):
                head.sendall(b"POST /api/look HTT")
                headers = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
                body.sendall(b"POST /api/look HTTP/1.1\r\n" + headers + b"\r\n{")
                assert request(port, "/health")[0] == 200  # the server has read the bytes sent before
                body.settimeout(0.3)
                with pytest.raises(TimeoutError):  # the server waits for the rest
                    body.recv(1)
                server.send_signal(signal.SIGTERM)
                errors = server.communicate(timeout=150)[1]
                body.settimeout(5)
                assert b"503" in body.recv(100)
        finally:
            server.kill()
    assert server.returncode == -signal.SIGTERM and "Traceback" not in errors
