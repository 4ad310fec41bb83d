"""What a server counts about itself, for Prometheus: requests, how long they took, batches, how many wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.core.extras import require

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The counters of one application; another in the same process has its own."""

    def __init__(self) -> None:
        library = require("prometheus_client", extra="serve")
        self._library, self._registry = library, library.CollectorRegistry()
        told: dict[str, Any] = {"registry": self._registry}
        self._requests = library.Counter("regard_requests", "Requests answered", ["run", "verb", "status"], **told)
        self._seconds = library.Histogram(
            "regard_request_seconds", "From arrival to answer", ["run", "verb"], buckets=SECONDS, **told
        )
        self._inputs = library.Counter("regard_inputs", "Inputs answered", ["run"], **told)
        self._batches = library.Histogram(
            "regard_batch_inputs", "Inputs computed together", ["run"], buckets=BATCHES, **told
        )
        self._waiting = library.Gauge("regard_waiting_inputs", "Inputs whose turn has not come", ["run"], **told)

    def answered(self, run: str, verb: str, status: int, seconds: float) -> None:
        """One request."""
        self._requests.labels(run, verb, str(status)).inc()
        self._seconds.labels(run, verb).observe(seconds)

    def batched(self, run: str, size: int) -> None:
        """One batch."""
        self._inputs.labels(run).inc(size)
        self._batches.labels(run).observe(size)

    def watch(self, run: str, waiting: Callable[[], int]) -> None:
        """How many wait is asked for whenever somebody reads the numbers."""
        self._waiting.labels(run).set_function(waiting)

    def page(self) -> tuple[bytes, str]:
        """The numbers as Prometheus reads them, and what kind of text that is."""
        return self._library.generate_latest(self._registry), self._library.CONTENT_TYPE_LATEST
