"""What a server counts about itself, for Prometheus: requests, how long they took, batches, how many wait. Several
processes that share a port count into files of one folder, and whichever is asked tells the numbers of all."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.core.extras import require

LATENCY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BATCH_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64)
MULTIPROC_DIR_ENV = "PROMETHEUS_MULTIPROC_DIR"  # the library looks here, when it is imported, for where to count


class Metrics:
    """The counters of one application; another in the same process has its own."""

    def __init__(self) -> None:
        library = require("prometheus_client", extra="serve")
        self._library, self._registry = library, library.CollectorRegistry()
        told: dict[str, Any] = {"registry": self._registry}
        self._requests = library.Counter("regard_requests", "Requests answered", ["run", "verb", "status"], **told)
        self._seconds = library.Histogram(
            "regard_request_seconds", "From arrival to answer", ["run", "verb"], buckets=LATENCY_BUCKETS_S, **told
        )
        self._inputs = library.Counter("regard_inputs", "Inputs answered", ["run"], **told)
        self._batches = library.Histogram(
            "regard_batch_inputs", "Inputs computed together", ["run"], buckets=BATCH_SIZE_BUCKETS, **told
        )
        self._waiting = library.Gauge(
            "regard_waiting_inputs", "Inputs whose turn has not come", ["run"], multiprocess_mode="livesum", **told
        )
        self._watched: dict[str, Callable[[], int]] = {}
        self._shared = MULTIPROC_DIR_ENV in os.environ
        self._of = lru_cache(maxsize=1024)(self._labelled)  # labels are looked up once, not for each request

    def observe_request(self, run: str, verb: str, status: int, seconds: float) -> None:
        """One request."""
        requests, times = self._of(run, verb, status)
        requests.inc()
        times.observe(seconds)
        if self._shared and run in self._watched:
            self._waiting.labels(run).set(self._watched[run]())

    def _labelled(self, run: str, verb: str, status: int) -> tuple[Any, Any]:
        return self._requests.labels(run, verb, str(status)), self._seconds.labels(run, verb)

    def observe_batch(self, run: str, size: int, *, searched: bool = False) -> None:
        """One batch that was answered; where it was searched for, what was computed together is counted by the step."""
        self._inputs.labels(run).inc(size)
        if not searched:
            self.observe_step(run, size)

    def observe_step(self, run: str, size: int) -> None:
        """Inputs that were computed together."""
        self._batches.labels(run).observe(size)

    def register_queue(self, run: str, waiting: Callable[[], int]) -> None:
        """How many wait is asked for whenever somebody reads the numbers; where processes share them, also whenever a
        request has been answered: another process reads what was noted last."""
        self._watched[run] = waiting
        self._waiting.labels(run).set(0)

    def page(self) -> tuple[bytes, str]:
        """The numbers as Prometheus reads them, and what kind of text that is."""
        for run, waiting in self._watched.items():
            self._waiting.labels(run).set(waiting())
        registry = (
            self._registry if MULTIPROC_DIR_ENV not in os.environ else self._of_all(Path(os.environ[MULTIPROC_DIR_ENV]))
        )
        return self._library.generate_latest(registry), self._library.CONTENT_TYPE_LATEST

    def _of_all(self, folder: Path) -> Any:
        """The numbers of all processes. What waited in one that is gone waits no more; what it had counted stays."""
        multiprocess = require("prometheus_client.multiprocess", extra="serve")
        for path in folder.glob("gauge_live*.db"):
            number = int(path.stem.rpartition("_")[2])
            if not _is_alive(number):
                multiprocess.mark_process_dead(number, str(folder))
        registry = self._library.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, path=str(folder))
        return registry


def _is_alive(number: int) -> bool:
    if os.name != "posix":  # elsewhere there is no way to ask without harm
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
