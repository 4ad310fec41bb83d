"""Ray engine: map work over chunks of text on the machines of a Ray cluster, with results in order.

The chunks are rows of a Ray dataset, mapped by actors that hold the work. Ray restarts a worker that dies and repeats
its unfinished chunks. The work is pickled: a run is sent as its folder path, which must exist on every machine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from regard.core.errors import ConfigError, RegardError
from regard.core.extras import require

LOCAL = "local"  # a cluster on this machine only, for the duration of the command
QUIET = {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}
CHUNKS_PER_DATASET = 512  # chunks that are submitted at a time: limits the memory


class ClusterError(RegardError):
    """The cluster could not finish the work."""


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Yield the ray module, connected to the cluster at an address; `local` starts one on this machine."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray = require("ray", extra="ray")
    require("ray.data", extra="ray")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    options = {"_node_ip_address": "127.0.0.1", "include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
    except (OSError, RuntimeError, ValueError, ImportError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"--ray {address}: no cluster there ({reason}); give its address, or local") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def cluster_cpus(ray: Any) -> int:
    """Return the number of CPUs of the cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def map_in_order(work: Callable[[str], str], chunks: Iterable[str], *, ray: Any, workers: int) -> Iterator[str]:
    """Yield work(chunk) for every chunk, in order. `work` must be picklable."""
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    for group in _groups(chunks):
        rows = [{"chunk": chunk} for chunk in group]
        dataset = ray.data.from_items(rows, override_num_blocks=len(rows))
        results = dataset.map_batches(
            Worker,
            fn_constructor_args=(work, os.getcwd()),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(rows))),
        )
        try:
            yield from (row["result"] for row in results.iter_rows())
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1][:300]
            raise ClusterError(f"the cluster did not finish the work ({reason}); try again without --ray") from None


class Worker:
    """Actor of the cluster that applies the work to one chunk after another."""

    def __init__(self, work: Callable[[str], str], folder: str) -> None:
        import torch

        with suppress(OSError):  # inputs may be files, relative to the folder of the command
            os.chdir(folder)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        torch.set_num_threads(1)
        self._work = work

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows with chunks -> rows with results."""
        return {"result": [self._work(str(chunk)) for chunk in batch["chunk"]]}


def _groups(chunks: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for chunk in chunks:
        group.append(chunk)
        if len(group) == CHUNKS_PER_DATASET:
            yield group
            group = []
    if group:
        yield group
