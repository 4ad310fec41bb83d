"""A server and the signal that ends it: what has arrived is answered, what comes later is refused at once."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from regard.core.extras import require

ENDING = 30  # seconds for requests under way when the server is told to end
CONNECTIONS = 1024  # open at once, idle ones included
SIGNALS = (signal.SIGINT, signal.SIGTERM)
COLLECTED = (5_000, 10, 10)  # objects, and collections of younger ones, after which Python looks for what can go
UNHEARD = 60  # seconds after which a process of several that says nothing is started anew


@contextmanager
def told_to_end(end: Callable[[], None]) -> Iterator[None]:
    """Inside, `end` is called as soon as a signal comes that ends the server, before the server's own handler."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals come elsewhere
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, frame: Any) -> None:
        end()
        own = before[signal.Signals(number)]
        if callable(own):
            own(number, frame)

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


def serve(app: Any, taken: socket.socket) -> None:
    """Run on a socket until interrupted. What is under way then is answered; what is half sent does not keep it."""
    uvicorn = require("uvicorn", extra="serve")
    _settle()
    uvicorn.Server(uvicorn.Config(app, **_settings())).run(sockets=[taken])


def serve_in_processes(make: Callable[[], Any], taken: socket.socket, *, count: int) -> None:
    """The same by several processes that share the socket; `make` makes the application in each of them. One that dies
    is started anew."""
    uvicorn = require("uvicorn", extra="serve")
    settings = uvicorn.Config(
        OneOfSeveral(make), factory=True, workers=count, timeout_worker_healthcheck=UNHEARD, **_settings()
    )
    _watching()(settings, sockets=[taken]).run()


def _watching() -> Any:
    """Uvicorn's own supervisor, which hears at once when a process dies. It asks each process whether it is well, and
    holds both ends of the pipe to it: one that dies then would be waited for as if it only were slow, signals too."""
    supervisor: Any = require("uvicorn.supervisors", extra="serve").Multiprocess

    class Watching(supervisor):  # type: ignore[misc]  # known when uvicorn is there
        def init_processes(self) -> None:
            super().init_processes()
            self._let_go()

        def keep_subprocess_alive(self) -> None:
            super().keep_subprocess_alive()
            self._let_go()

        def _let_go(self) -> None:
            for process in self.processes:
                process.child_conn.close()  # here; the process has its own

    return Watching


@dataclass(frozen=True)
class OneOfSeveral:
    """Makes the application in a process of several, which ends by itself when the one that started it is gone."""

    make: Callable[[], Any]

    def __call__(self) -> Any:
        """The application."""
        parent = multiprocessing.parent_process()
        if parent is not None:
            threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        app = self.make()
        _settle()
        return app


def _end_with(parent: Any) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _settle() -> None:
    """What has been loaded stays to the end: Python need not look through it again and again for what can go. Nor need
    it look as often as it does through what many requests have made, nearly all of which goes by itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)


def _settings() -> dict[str, Any]:
    return {
        "log_level": "warning",
        "timeout_graceful_shutdown": ENDING,
        "limit_concurrency": CONNECTIONS,
        "timeout_keep_alive": 5,
        "server_header": False,
        "access_log": False,  # at this level nothing would be written, but each line be made
        "http": "regard.serve.wire:Protocol",
        "ws": "none",
    }
