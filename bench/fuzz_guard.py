"""Restrictions on a process that handles fuzzed input: no writes elsewhere, no network, no new processes, no imports
named by the input, and limits on memory and time."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from fuzz_cases import CANARY

SECONDS = 10  # of a processor, for a case that takes milliseconds
CLOCK = 180  # seconds by the clock, on a machine that may be busy
MEMORY = 700 * 2**20  # bytes that a process may take beyond what it had at its start
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind")
PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile")
CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
)
SIGNALS = {
    signal.SIGPROF: f"took more than {SECONDS} s of a processor",
    signal.SIGALRM: f"did not end within {CLOCK} s",
}


class Guard:
    """Restrictions of one process, installed once."""

    def __init__(self, allowed: list[Path]) -> None:
        self.allowed = [os.path.realpath(path) + os.sep for path in allowed]
        self.broken: list[str] = []
        self.watching = False
        self.used = 0.0
        sys.addaudithook(self._hear)
        used_bytes = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used_bytes + MEMORY, used_bytes + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def __enter__(self) -> Guard:
        self.broken.clear()
        self.watching = True
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # these signals have no handler: they end the process,
        signal.setitimer(signal.ITIMER_REAL, CLOCK)  # whatever it is doing
        return self

    def __exit__(self, *_: object) -> None:
        self.watching = False
        remaining, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.used = SECONDS - remaining

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "open":
            path, _, flags = args
            if isinstance(path, str | bytes) and isinstance(flags, int) and flags & WRITING:
                self._check("wrote to", path)
        elif event == "import" and str(args[0]).startswith(CANARY):
            self.broken.append(f"imported {args[0]}")
        elif event in NETWORK:
            self.broken.append(f"used the network: {event} {args[1:]!r}"[:200])
        elif event in PROCESSES:
            self.broken.append(f"started a process: {args[0]!r}"[:200])
        elif event in CHANGES:
            for path, folder in _paths(event, args):
                if isinstance(path, str | bytes | os.PathLike):
                    self._check(event, os.fspath(path), folder)

    def _check(self, what: str, path: str | bytes, folder: int = -1) -> None:
        text = os.fsdecode(path)
        if folder >= 0:  # a name in a folder that was opened before
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        if text == os.devnull:
            return
        real = os.path.realpath(text)
        if not any((real + os.sep).startswith(root) for root in self.allowed):
            self.broken.append(f"{what} {real!r}")


def _paths(event: str, args: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """Return the names that an event changes, each with the handle of its folder, or -1."""
    if event in ("os.rename", "os.link"):
        return [(args[0], args[2]), (args[1], args[3])]
    if event == "os.symlink":
        return [(args[1], args[2])]
    return [(args[0], args[-1] if event in ("os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown") else -1)]
