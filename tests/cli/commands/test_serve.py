"""`regard serve`: this machine alone unless another host is named."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest
from calling import call

from regard.serve.listen import listen


@pytest.fixture
def free():
    """A port that nobody uses."""
    with listen("127.0.0.1", 0) as taken:
        return taken.getsockname()[1]


def test_it_serves_the_run_where_it_is_told(small, free, monkeypatch, capsys):
    created, served = [], []
    monkeypatch.setattr("regard.serve.app.create", lambda run, text, host: created.append((run.folder, text, host)))
    monkeypatch.setattr("regard.serve.app.serve", lambda app, taken: served.append(taken.getsockname()))
    call("serve", small, "--port", free)
    call("serve", small, "They sleep.", "--host", "0.0.0.0", "--port", free)
    assert created == [(small, None, "127.0.0.1"), (small, "They sleep.", "0.0.0.0")]
    assert served == [("127.0.0.1", free), ("0.0.0.0", free)]
    assert f"http://127.0.0.1:{free}/" in capsys.readouterr().out


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
