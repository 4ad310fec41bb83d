"""Prometheus metrics of the server: requests, their duration, batch sizes, queue lengths.

With several workers the counters are stored in a shared folder, and every worker reports the totals.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.core.extras import require

LATENCY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BATCH_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64)
MULTIPROC_DIR_ENV = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when it is imported


class Metrics:
    """The metrics of one application; another application in the same process has its own."""

    def __init__(self) -> None:
        library = require("prometheus_client", extra="serve")
        self._library, self._registry = library, library.CollectorRegistry()
        common: dict[str, Any] = {"registry": self._registry}
        self._requests = library.Counter("regard_requests", "Requests", ["run", "verb", "status"], **common)
        self._seconds = library.Histogram(
            "regard_request_seconds", "Duration of requests", ["run", "verb"], buckets=LATENCY_BUCKETS_S, **common
        )
        self._inputs = library.Counter("regard_inputs", "Predicted inputs", ["run"], **common)
        self._batches = library.Histogram(
            "regard_batch_inputs", "Inputs computed together", ["run"], buckets=BATCH_SIZE_BUCKETS, **common
        )
        self._queued = library.Gauge(
            "regard_waiting_inputs", "Queued inputs", ["run"], multiprocess_mode="livesum", **common
        )
        self._restarts = library.Gauge(
            "regard_worker_restarts", "Worker threads that died", ["run"], multiprocess_mode="livesum", **common
        )
        self._overdue = library.Gauge(
            "regard_workers_overdue",
            "Worker threads that do not return",
            ["run"],
            multiprocess_mode="livesum",
            **common,
        )
        self._inspections = library.Gauge(
            "regard_inspections", "Inspections in memory", multiprocess_mode="livesum", **common
        )
        self._inspection_bytes = library.Gauge(
            "regard_inspection_bytes", "Bytes of the inspections in memory", multiprocess_mode="livesum", **common
        )
        self._queues: dict[str, Callable[[], int]] = {}
        self._workers: dict[str, Callable[[], tuple[int, int]]] = {}
        self._inspection_sizes: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._is_shared = MULTIPROC_DIR_ENV in os.environ
        self._labelled = lru_cache(maxsize=1024)(self._with_labels)  # the lookup of labels is slow

    def observe_request(self, run: str, verb: str, status: int, seconds: float) -> None:
        """Count a request."""
        requests, durations = self._labelled(run, verb, status)
        requests.inc()
        durations.observe(seconds)
        if self._is_shared and run in self._queues:
            self._queued.labels(run).set(self._queues[run]())

    def observe_batch(self, run: str, size: int, *, searched: bool = False) -> None:
        """Count a predicted batch. With continuous batching (`searched`), sizes are counted per step instead."""
        self._inputs.labels(run).inc(size)
        if not searched:
            self.observe_step(run, size)

    def observe_step(self, run: str, size: int) -> None:
        """Count inputs that were computed together."""
        self._batches.labels(run).observe(size)

    def register_queue(self, run: str, queued_inputs: Callable[[], int]) -> None:
        """Register the queue of a run.

        Its length is read when the metrics are. With several workers it is also read after each request, because
        another worker reports the last stored value.
        """
        self._queues[run] = queued_inputs
        self._queued.labels(run).set(0)

    def register_workers(self, run: str, counts: Callable[[], tuple[int, int]]) -> None:
        """Register the worker threads of a run: how many died, and how many do not return."""
        self._workers[run] = counts

    def register_inspections(self, sizes: Callable[[], tuple[int, int]]) -> None:
        """Register the inspections in memory: their number and their bytes."""
        self._inspection_sizes = sizes

    def page(self) -> tuple[bytes, str]:
        """Return the metrics in the text format of Prometheus, and its media type."""
        for run, queued_inputs in self._queues.items():
            self._queued.labels(run).set(queued_inputs())
        for run, counts in self._workers.items():
            for gauge, count in zip((self._restarts, self._overdue), counts(), strict=True):
                gauge.labels(run).set(count)
        for gauge, size in zip((self._inspections, self._inspection_bytes), self._inspection_sizes(), strict=True):
            gauge.set(size)
        folder = os.environ.get(MULTIPROC_DIR_ENV)
        registry = self._registry if folder is None else self._merge_processes(Path(folder))
        return self._library.generate_latest(registry), self._library.CONTENT_TYPE_LATEST

    def _with_labels(self, run: str, verb: str, status: int) -> tuple[Any, Any]:
        return self._requests.labels(run, verb, str(status)), self._seconds.labels(run, verb)

    def _merge_processes(self, folder: Path) -> Any:
        """Return the totals of all workers. The counts of a dead worker remain; its queue length is dropped."""
        multiprocess = require("prometheus_client.multiprocess", extra="serve")
        for path in folder.glob("gauge_live*.db"):
            process_id = int(path.stem.rpartition("_")[2])
            if not _is_alive(process_id):
                multiprocess.mark_process_dead(process_id, str(folder))
        registry = self._library.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, path=str(folder))
        return registry


def _is_alive(process_id: int) -> bool:
    if os.name != "posix":  # on other systems os.kill would end the process
        return True
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
