"""A port is taken before anything is announced; what is wrong with it is one line."""

from __future__ import annotations

import errno
import socket

import pytest

from regard.core.errors import RegardError
from regard.serve.server import _reason, address, listen


def test_any_free_port():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address(taken, "127.0.0.1") == f"http://127.0.0.1:{port}/"
        assert address(taken, "::1") == f"http://[::1]:{port}/"


def test_a_port_in_use():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RegardError, match=rf"port {port} of 127.0.0.1 is in use; choose another: --port \d+"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 65536, 99999999999])
def test_a_port_that_there_is_not(port):
    with pytest.raises(RegardError, match=rf"port {port}: ports are numbers from 0 \(any that is free\) to 65535"):
        listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no such host", "a..b", "x" * 300])
def test_a_host_that_there_is_not(host, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # no network is asked
    with pytest.raises(RegardError, match=r"is not known; use 127\.0\.0\.1, or 0\.0\.0\.0 for every machine"):
        listen(host, 0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EACCES, "port 80 of h needs the rights of an administrator; choose one above 1023: --port 8765"),
        (errno.EADDRNOTAVAIL, "host 'h' is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for every"),
        (errno.EINVAL, "port 80 of h cannot be used (why); choose another with --port"),
    ],
)
def test_other_reasons(code, said):
    assert said in _reason(OSError(code, "why"), "h", 80)
