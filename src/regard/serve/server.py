"""A server and the signal that ends it: what has arrived is answered, what comes later is refused at once.

A port of this machine, taken before anything is loaded or announced.

Run folders to the application that serves them: here, or in each of several processes.
"""

from __future__ import annotations

import errno
import gc
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, RegardError
from regard.core.extras import require

SHUTDOWN_TIMEOUT_S = 30  # seconds for requests under way when the server is told to end
MAX_CONNECTIONS = 1024  # open at once, idle ones included
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GC_THRESHOLDS = (5_000, 10, 10)  # objects, and collections of younger ones, after which Python looks for what can go
WORKER_HEALTH_TIMEOUT_S = 60  # seconds after which a process of several that says nothing is started anew


@contextmanager
def on_shutdown_signal(end: Callable[[], None]) -> Iterator[None]:
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


def serve(app: Any, server_socket: socket.socket) -> None:
    """Run on a socket until interrupted. What is under way then is answered; what is half sent does not keep it."""
    uvicorn = require("uvicorn", extra="serve")
    _settle()
    uvicorn.Server(uvicorn.Config(app, **_settings())).run(sockets=[server_socket])


def serve_in_processes(make: Callable[[], Any], server_socket: socket.socket, *, count: int) -> None:
    """The same by several processes that share the socket; `make` makes the application in each of them. One that dies
    is started anew."""
    uvicorn = require("uvicorn", extra="serve")
    settings = uvicorn.Config(
        WorkerFactory(make),
        factory=True,
        workers=count,
        timeout_worker_healthcheck=WORKER_HEALTH_TIMEOUT_S,
        **_settings(),
    )
    _watching()(settings, sockets=[server_socket]).run()


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
class WorkerFactory:
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
    gc.set_threshold(*GC_THRESHOLDS)


def _settings() -> dict[str, Any]:
    return {
        "log_level": "warning",
        "timeout_graceful_shutdown": SHUTDOWN_TIMEOUT_S,
        "limit_concurrency": MAX_CONNECTIONS,
        "timeout_keep_alive": 5,
        "server_header": False,
        "access_log": False,  # at this level nothing would be written, but each line be made
        "http": "regard.serve.http_protocol:Protocol",
        "ws": "none",
    }


MAX_PORT = 65535


def listen(host: str, port: int) -> socket.socket:
    """An address -> a socket that listens there (port 0: any that is free); what is wrong with it is one line."""
    if not 0 <= port <= MAX_PORT:
        raise RegardError(f"port {port}: ports are numbers from 0 (any that is free) to {MAX_PORT}")
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
        other = port + 1 if port < MAX_PORT else port - 1
        return f"port {port} of {host} is in use; choose another: --port {other}"
    if wrong.errno == errno.EACCES:
        return f"port {port} of {host} needs the rights of an administrator; choose one above 1023: --port 8765"
    if wrong.errno == errno.EADDRNOTAVAIL:
        return f"host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for every machine"
    return f"port {port} of {host} cannot be used ({wrong.strerror}); choose another with --port"


def address(server_socket: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server_socket.getsockname()[1]}/"


INSPECTIONS_FOLDER, METRICS_FOLDER = "looks", "counted"  # folders of what several processes share


@dataclass(frozen=True)
class ServerConfig:
    """What is served and how; called, it loads the runs. It can be sent to another process."""

    folders: tuple[Path, ...]
    text: str | None = None  # what the first run's page shows first
    host: str = "127.0.0.1"
    key: str = ""
    engine: str = "native"
    trust: bool = False
    warn: Callable[[str], None] = logging.getLogger("regard.serve").warning
    processes: int = 1  # that share the port and the machine
    shared: Path | None = None  # a folder for what they must all know

    def __call__(self) -> Any:
        """The application. A run that is damaged is named, and the others are served."""
        if self.shared is not None:
            from regard.serve.metrics import MULTIPROC_DIR_ENV

            os.environ[MULTIPROC_DIR_ENV] = str(
                self.shared / METRICS_FOLDER
            )  # before the library that counts is imported
            (self.shared / METRICS_FOLDER).mkdir(exist_ok=True)
        from regard.serve import service
        from regard.serve.model_runtime import open_runs

        hosted, wrong = open_runs(self.folders, engine=self.engine, trust=self.trust)
        self._name(wrong, served=len(hosted))
        if self.shared is None:  # else every process would say it
            for each in (one for one in hosted if one.run.engine_note):
                self.warn(f"{each.name}: {each.run.engine_note}")
        set_torch_threads([each.run.model for each in hosted], processes=self.processes)
        looks = None if self.shared is None else self.shared / INSPECTIONS_FOLDER
        return service.create(hosted, self.text, host=self.host, key=self.key, looks=looks)

    def without_broken_runs(self) -> tuple[ServerConfig, list[str]]:
        """The same without the runs that cannot be loaded, which are named, and the names of those that can; found out
        in a process of its own, so that this one stays small."""
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            names, wrong = pool.submit(_try, self.folders, self.engine, trust=self.trust).result()
        self._name(wrong, served=len(names))
        return replace(self, folders=tuple(folder for folder in self.folders if folder not in wrong)), names

    def _name(self, wrong: dict[Path, str], *, served: int) -> None:
        if not served and len(wrong) == 1:
            raise RegardError(next(iter(wrong.values())))
        for folder, line in wrong.items():
            self.warn(f"{folder} is not served: {line}")
        if not served:
            raise ConfigError("there is no run to serve; name the folder of one")


def _try(folders: Sequence[Path], engine: str, *, trust: bool) -> tuple[list[str], dict[Path, str]]:
    """The names of the runs that can be loaded, and what is wrong with the others."""
    from regard.serve.model_runtime import open_runs

    hosted, wrong = open_runs(folders, engine=engine, trust=trust)
    return [each.name for each in hosted], wrong


def set_torch_threads(models: Sequence[Any], *, processes: int) -> None:
    """As many threads for a product as pay for the widest of the models, shared with the other processes. More than one
    for narrow models only keeps the second core from whoever reads requests."""
    import torch

    from regard.core.cpu import recommended_threads

    torch.set_num_threads(max(1, max(map(recommended_threads, models), default=1) // processes))
