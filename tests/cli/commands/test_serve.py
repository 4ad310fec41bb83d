"""`regard serve`: this machine alone unless another host is named."""

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
from pathlib import Path
from types import SimpleNamespace

import pytest
from run_cli import call

from regard.serve.server import listen


@pytest.fixture
def free():
    """A port that nobody uses."""
    with listen("127.0.0.1", 0) as taken:
        return taken.getsockname()[1]


def test_it_serves_the_runs_where_it_is_told(small, free, tmp_path, monkeypatch, capsys):
    created, served = [], []

    def create(hosted, text, *, host, key, looks):
        assert looks is None
        created.append(([each.name for each in hosted], text, host, key))
        return SimpleNamespace(state=SimpleNamespace(service=SimpleNamespace(hosted=hosted)))

    monkeypatch.setattr("regard.serve.app.create", create)
    monkeypatch.setattr("regard.serve.server.serve", lambda app, taken: served.append(taken.getsockname()))
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


def test_several_processes_are_given_the_runs_that_load(small, free, tmp_path, monkeypatch, capsys):
    made = []
    monkeypatch.setattr("regard.serve.server.serve_in_processes", lambda make, taken, count: made.append((make, count)))
    call("serve", small, tmp_path / "none", "--workers", "2", "--port", free)
    ((starting, count),) = made
    assert count == starting.processes == 2 and starting.folders == (small,)
    assert pickle.loads(pickle.dumps(starting)) == starting and not starting.shared.exists()
    said = capsys.readouterr()
    assert f"serving {small.name} by 2 processes on http://127.0.0.1:{free}/" in said.out
    assert f"{tmp_path / 'none'} is not served: " in said.err and said.err.count("\n") == 1
    for words, line in (
        ([small, "--workers", "0"], "--workers 0: give the number of processes, 1 or more"),
        ([tmp_path / "a", tmp_path / "b", "--workers", "2"], "there is no run to serve; name the folder of one"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("serve", *words, "--port", free)
        assert stop.value.code == 1 and line in capsys.readouterr().err
    assert len(made) == 1


def asked(port, path, body=None):
    """A request on a connection of its own, so that any of the processes may answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def processes_of(number):
    """The processes that answer requests for a server."""
    children = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="utf-8").split()
    return [each for each in map(int, children) if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def two_of(number, without=0):
    """Its two processes, as soon as there are two, of which one is not this."""
    ends = time.monotonic() + 90
    while time.monotonic() < ends:
        found = processes_of(number)
        if len(found) == 2 and without not in found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"there are {processes_of(number)}")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the processes of a server are found in /proc")
def test_several_processes_share_the_port_and_one_that_dies_is_replaced(small):
    command = [sys.executable, "-m", "regard", "serve", str(small), "--port", "0", "--workers", "2"]
    body = {"inputs": ["They sleep."]}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, **pipes) as server:
        try:
            port = int(server.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
            answers = {asked(port, "/v1/translate", body) for _ in range(20)}
            assert len(answers) == 1 and next(iter(answers))[0] == 200
            look = json.loads(asked(port, "/v1/look", {"input": "They sleep."})[1])["id"]
            tile = f"/api/tile?look={look}&map=0&head=0&level=0&i=0&j=0"
            assert len({asked(port, tile) for _ in range(10)}) == 1  # whichever of them is asked
            counted = 'regard_requests_total{run="small",status="200",verb="translate"} 20.0'
            assert all(counted in asked(port, "/metrics")[1].decode() for _ in range(6))
            first, other = two_of(server.pid)
            os.kill(first, signal.SIGKILL)
            assert other in two_of(server.pid, without=first) and asked(port, "/v1/translate", body) in answers
            assert 'verb="translate"} 21.0' in asked(port, "/metrics")[1].decode()  # what it had counted is kept
            workers = processes_of(server.pid)
            server.send_signal(signal.SIGTERM)
            assert "Traceback" not in server.communicate(timeout=30)[1]
        finally:
            server.kill()
    assert not any(Path(f"/proc/{each}").exists() for each in workers)


def test_where_no_run_can_be_served_it_says_why(tmp_path, free, capsys):
    for words, said in (
        ([tmp_path / "a"], "no such run"),
        ([tmp_path / "a", tmp_path / "b"], "there is no run to serve"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("serve", *words, "--port", free)
        assert stop.value.code == 1 and said in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", " ", "sesame "])
def test_a_key_that_is_none_does_not_leave_the_door_open(small, free, monkeypatch, capsys, key):
    monkeypatch.setenv("REGARD_KEY", key)
    with pytest.raises(SystemExit) as stop:
        call("serve", small, "--port", free)
    said = "REGARD_KEY is empty or has spaces at its ends; set a key, or unset the variable to require none"
    assert stop.value.code == 1 and capsys.readouterr().err == f"regard: {said}\n"


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
            assert asked(port, "/health")[0] == 200  # it not only listens: from here on it hears signals
            with (
                socket.create_connection(("127.0.0.1", port)) as head,
                socket.create_connection(("127.0.0.1", port)) as body,
            ):
                head.sendall(b"POST /api/look HTT")
                body.sendall(b"POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
                assert asked(port, "/health")[0] == 200  # and has read what came before
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
