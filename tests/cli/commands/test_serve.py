"""`regard serve`: this machine alone unless another host is named."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from calling import call

from regard.serve.listen import listen


@pytest.fixture
def free():
    """A port that nobody uses."""
    with listen("127.0.0.1", 0) as taken:
        return taken.getsockname()[1]


def test_it_serves_the_runs_where_it_is_told(small, free, tmp_path, monkeypatch, capsys):
    created, served = [], []

    def create(hosted, text, *, host, key):
        created.append(([each.name for each in hosted], text, host, key))
        return SimpleNamespace(state=SimpleNamespace(service=SimpleNamespace(hosted=hosted)))

    monkeypatch.setattr("regard.serve.service.create", create)
    monkeypatch.setattr("regard.serve.ending.serve", lambda app, taken: served.append(taken.getsockname()))
    call("serve", small, "--port", free)
    monkeypatch.setenv("REGARD_KEY", "sesame")
    call("serve", small, tmp_path / "none", small, "--input", "They sleep.", "--host", "0.0.0.0", "--port", free)
    assert created == [
        ([small.name], None, "127.0.0.1", ""),
        ([small.name, f"{small.name}-2"], "They sleep.", "0.0.0.0", "sesame"),
    ]
    assert served == [("127.0.0.1", free), ("0.0.0.0", free)]
    said = capsys.readouterr()
    assert f"serving {small.name} on http://127.0.0.1:{free}/" in said.out
    assert f"regard: {tmp_path / 'none'} is not served: " in said.err and said.err.count("\n") == 1


def test_several_processes_share_the_port(small, free, monkeypatch, capsys):
    made = []
    monkeypatch.setattr("regard.serve.ending.serve_in_processes", lambda make, taken, count: made.append((make, count)))
    call("serve", small, "--workers", "2", "--port", free)
    ((starting, count),) = made
    assert count == 2 and starting.folders == (small,) and pickle.loads(pickle.dumps(starting)) == starting
    assert f"serving 1 runs by 2 processes on http://127.0.0.1:{free}/" in capsys.readouterr().out


def test_where_no_run_can_be_served_it_says_why(tmp_path, free, capsys):
    for words, said in (
        ([tmp_path / "a"], "no such run"),
        ([tmp_path / "a", tmp_path / "b"], "there is no run to serve"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("serve", *words, "--port", free)
        assert stop.value.code == 1 and said in capsys.readouterr().err


def test_a_port_that_cannot_be_had_is_said_before_anything_else(small, tmp_path, capsys):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        cases = {
            ("serve", small, "--port", port): f"port {port} of 127.0.0.1 is in use; choose another: --port ",
            ("look", small, "They sleep.", "--port", port): f"port {port} of 127.0.0.1 is in use; choose another",
            ("serve", small, "--port", 70000): "port 70000: ports are numbers from 0 (any that is free) to 65535",
            ("look", small, "They sleep.", "--port", 70000): "port 70000: ports are numbers from 0",
        }
        for words, said in cases.items():
            with pytest.raises(SystemExit) as stop:
                call(*words)
            printed = capsys.readouterr()
            assert stop.value.code == 1 and said in printed.err and printed.err.count("\n") == 1
            assert not printed.out


def test_sigterm_ends_it_though_a_request_is_half_sent(small):
    command = [sys.executable, "-m", "regard", "serve", str(small), "--port", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as server:
        try:
            announced = server.stdout.readline()
            port = int(announced.partition("127.0.0.1:")[2].partition("/")[0])
            with (
                socket.create_connection(("127.0.0.1", port)) as head,
                socket.create_connection(("127.0.0.1", port)) as body,
            ):
                head.sendall(b"POST /api/look HTT")
                body.sendall(b"POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
                body.settimeout(0.3)
                with pytest.raises(TimeoutError):  # it waits for the rest
                    body.recv(1)
                server.send_signal(signal.SIGTERM)
                said = server.communicate(timeout=15)[1]
                body.settimeout(5)
                assert b"503" in body.recv(100)
        finally:
            server.kill()
    assert server.returncode == -signal.SIGTERM and "Traceback" not in said
