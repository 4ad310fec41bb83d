"""A port of this machine, taken before anything is loaded or announced."""

from __future__ import annotations

import errno
import os
import socket

from regard.core.errors import RegardError

HIGHEST = 65535


def listen(host: str, port: int) -> socket.socket:
    """An address -> a socket that listens there (port 0: any that is free); what is wrong with it is one line."""
    if not 0 <= port <= HIGHEST:
        raise RegardError(f"port {port}: ports are numbers from 0 (any that is free) to {HIGHEST}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise RegardError(f"host {host!r} is not known; use 127.0.0.1, or 0.0.0.0 for every machine") from None
    taken = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # so that a server can be started again at once; elsewhere it would share the port
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(128)
    except OSError as wrong:
        taken.close()
        raise RegardError(_reason(wrong, host, port)) from None
    return taken


def _reason(wrong: OSError, host: str, port: int) -> str:
    if wrong.errno == errno.EADDRINUSE:
        other = port + 1 if port < HIGHEST else port - 1
        return f"port {port} of {host} is in use; choose another: --port {other}"
    if wrong.errno == errno.EACCES:
        return f"port {port} of {host} needs the rights of an administrator; choose one above 1023: --port 8765"
    if wrong.errno == errno.EADDRNOTAVAIL:
        return f"host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for every machine"
    return f"port {port} of {host} cannot be used ({wrong.strerror}); choose another with --port"


def address(taken: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{taken.getsockname()[1]}/"
