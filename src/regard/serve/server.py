"""Start and stop of the server: listening socket, Uvicorn in one or several processes, graceful shutdown.

The port is bound before any run is loaded. On a shutdown signal, complete requests are answered and new ones refused.
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

SHUTDOWN_TIMEOUT_S = 30  # seconds for active requests after a shutdown signal
MAX_CONNECTIONS = 1024  # open connections, idle ones included
MAX_PORT = 65535
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GC_THRESHOLDS = (5_000, 10, 10)  # new objects, and younger collections, before a garbage collection
WORKER_HEALTH_TIMEOUT_S = 60  # seconds after which a worker that does not respond is restarted
INSPECTIONS_FOLDER, METRICS_FOLDER = "looks", "counted"  # folders shared by all workers


@dataclass(frozen=True)
class ServerConfig:
    """Settings of a server, which can be pickled; calling it loads the runs and returns the application."""

    folders: tuple[Path, ...]
    text: str | None = None  # input that the page of the first run initially shows
    host: str = "127.0.0.1"
    key: str = ""
    engine: str = "native"
    trust: bool = False
    warn: Callable[[str], None] = logging.getLogger("regard.serve").warning
    processes: int = 1  # workers that share the port and the machine
    shared: Path | None = None  # folder for state shared by the workers

    def __call__(self) -> Any:
        """Return the application. Runs that cannot be loaded are reported, and the others are served."""
        if self.shared is not None:
            from regard.serve.metrics import MULTIPROC_DIR_ENV

            metrics_folder = self.shared / METRICS_FOLDER
            os.environ[MULTIPROC_DIR_ENV] = str(metrics_folder)  # before prometheus_client is imported
            metrics_folder.mkdir(exist_ok=True)
        from regard.serve.app import create_app
        from regard.serve.model_runtime import open_runs

        runs, errors = open_runs(self.folders, engine=self.engine, trust=self.trust)
        self._report(errors, num_served=len(runs))
        if self.shared is None:  # otherwise every worker would report it
            for served in runs:
                if served.run.engine_note:
                    self.warn(f"{served.name}: {served.run.engine_note}")
        set_torch_threads([served.run.model for served in runs], processes=self.processes)
        inspections_folder = None if self.shared is None else self.shared / INSPECTIONS_FOLDER
        return create_app(runs, self.text, host=self.host, key=self.key, inspections_folder=inspections_folder)

    def without_broken_runs(self) -> tuple[ServerConfig, list[str]]:
        """Report the runs that cannot be loaded -> the config without them, and the names of the others.

        The runs are loaded in another process, so that this one stays small.
        """
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            names, errors = pool.submit(_try_runs, self.folders, self.engine, trust=self.trust).result()
        self._report(errors, num_served=len(names))
        return replace(self, folders=tuple(folder for folder in self.folders if folder not in errors)), names

    def _report(self, errors: dict[Path, str], *, num_served: int) -> None:
        if not num_served and len(errors) == 1:
            raise RegardError(next(iter(errors.values())))
        for folder, message in errors.items():
            self.warn(f"{folder} is not served: {message}")
        if not num_served:
            raise ConfigError("no run to serve; name a run folder")


def _try_runs(folders: Sequence[Path], engine: str, *, trust: bool) -> tuple[list[str], dict[Path, str]]:
    """Return the names of the runs that can be loaded, and the error messages of the others."""
    from regard.serve.model_runtime import open_runs

    runs, errors = open_runs(folders, engine=engine, trust=trust)
    return [served.name for served in runs], errors


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free port."""
    if not 0 <= port <= MAX_PORT:
        raise RegardError(f"port {port}: must be between 0 (any free port) and {MAX_PORT}")
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise RegardError(f"host {host!r}: unknown; use 127.0.0.1, or 0.0.0.0 for all interfaces") from None
    server_socket = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # allows an immediate restart; on other systems it would share the port
            server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(socket_address)
        server_socket.listen(128)
    except OSError as error:
        server_socket.close()
        raise RegardError(_bind_error(error, host, port)) from None
    return server_socket


def _bind_error(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        alternative = port + 1 if port < MAX_PORT else port - 1
        return f"port {port} of {host} is in use; choose another: --port {alternative}"
    if error.errno == errno.EACCES:
        return f"port {port} of {host} needs administrator rights; choose one above 1023: --port 8765"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all interfaces"
    return f"port {port} of {host} cannot be used ({error.strerror}); choose another with --port"


def address(server_socket: socket.socket, host: str) -> str:
    """Return the URL of the server."""
    url_host = f"[{host}]" if ":" in host else host
    return f"http://{url_host}:{server_socket.getsockname()[1]}/"


def serve(app: Any, server_socket: socket.socket) -> None:
    """Serve on a socket until a shutdown signal. Active requests are then answered; incomplete ones are refused."""
    uvicorn = require("uvicorn", extra="serve")
    _tune_gc()
    uvicorn.Server(uvicorn.Config(app, **_uvicorn_settings())).run(sockets=[server_socket])


def serve_in_processes(create: Callable[[], Any], server_socket: socket.socket, *, count: int) -> None:
    """Serve with several workers that share the socket. Each calls `create` for its application; a worker that dies
    is restarted."""
    uvicorn = require("uvicorn", extra="serve")
    config = uvicorn.Config(
        WorkerFactory(create),
        factory=True,
        workers=count,
        timeout_worker_healthcheck=WORKER_HEALTH_TIMEOUT_S,
        **_uvicorn_settings(),
    )
    _supervisor_class()(config, sockets=[server_socket]).run()


def _supervisor_class() -> Any:
    """Return Uvicorn's supervisor, changed to detect immediately that a worker has died.

    Uvicorn's own keeps both ends of the pipe to each worker open. A worker that dies during a health check would then
    be waited for as if it were slow, and signals would wait too.
    """
    multiprocess: Any = require("uvicorn.supervisors", extra="serve").Multiprocess

    class Supervisor(multiprocess):  # type: ignore[misc]  # uvicorn is an optional dependency
        def init_processes(self) -> None:
            super().init_processes()
            self._close_child_ends()

        def keep_subprocess_alive(self) -> None:
            super().keep_subprocess_alive()
            self._close_child_ends()

        def _close_child_ends(self) -> None:
            for process in self.processes:
                process.child_conn.close()  # in this process only

    return Supervisor


@dataclass(frozen=True)
class WorkerFactory:
    """Creates the application in a worker, which ends itself when its parent process has died."""

    create: Callable[[], Any]

    def __call__(self) -> Any:
        """Return the application."""
        parent = multiprocessing.parent_process()
        if parent is not None:
            threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        app = self.create()
        _tune_gc()
        return app


def _end_with(parent: Any) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _tune_gc() -> None:
    """Exclude the loaded objects from garbage collection, and collect less often: reference counting already frees
    nearly all objects of a request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _uvicorn_settings() -> dict[str, Any]:
    return {
        "log_level": "warning",
        "timeout_graceful_shutdown": SHUTDOWN_TIMEOUT_S,
        "limit_concurrency": MAX_CONNECTIONS,
        "timeout_keep_alive": 5,
        "server_header": False,
        "access_log": False,  # at this log level the lines would be formatted but not written
        "http": "regard.serve.http_protocol:Protocol",
        "ws": "none",
    }


@contextmanager
def on_shutdown_signal(callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` on a shutdown signal, before the previous handler."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled by the main thread
        return
    previous_handlers = {signal_id: signal.getsignal(signal_id) for signal_id in SIGNALS}

    def handle(signal_id: int, frame: Any) -> None:
        callback()
        previous = previous_handlers[signal.Signals(signal_id)]
        if callable(previous):
            previous(signal_id, frame)

    for signal_id in SIGNALS:
        signal.signal(signal_id, handle)
    try:
        yield
    finally:
        for signal_id, previous in previous_handlers.items():
            signal.signal(signal_id, previous)


def set_torch_threads(models: Sequence[Any], *, processes: int) -> None:
    """Set the number of threads that pays for the widest model, divided by the number of workers.

    For narrow models a second thread would only take the core on which requests are parsed.
    """
    import torch

    from regard.core.cpu import recommended_threads

    torch.set_num_threads(max(1, max(map(recommended_threads, models), default=1) // processes))
