"""Work that is cut into pieces, done by the machines of a Ray cluster, the results in the order of the pieces.

The pieces are rows of a dataset (Ray Data), and actors that hold the work map over them. A worker that dies is started
anew, by Ray, and what it had not finished is done again. The work is pickled: a run goes as the name of its folder,
which every machine must have at the same place.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from regard.core.errors import ConfigError, RegardError
from regard.core.extras import require

LOCAL = "local"  # a cluster of this machine alone, for as long as the command runs
QUIET = {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}
CHUNKS_PER_DATASET = 512  # pieces that are handed over at a time: this bounds the memory


class ClusterError(RegardError):
    """A cluster that cannot be reached, or work that it cannot finish."""


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """The library, connected to the cluster at an address; `local` starts one of this machine."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray = require("ray", extra="ray")
    require("ray.data", extra="ray")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    here = {"_node_ip_address": "127.0.0.1", "include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **here)
    except (OSError, RuntimeError, ValueError, ImportError, ray.exceptions.RayError) as wrong:
        reason = " ".join(str(wrong).split())[:200]
        raise ConfigError(f"--ray {address}: no cluster there ({reason}); give its address, or local") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def cluster_cpus(ray: Any) -> int:
    """How many processors the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def map_in_order(work: Callable[[str], str], pieces: Iterable[str], *, ray: Any, workers: int) -> Iterator[str]:
    """work(piece) for every piece, in order. Both are texts; `work` must be one that can be pickled."""
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    for chapter in _chapters(pieces):
        rows = [{"piece": piece} for piece in chapter]
        data = ray.data.from_items(rows, override_num_blocks=len(rows))
        made = data.map_batches(
            Worker,
            fn_constructor_args=(work, os.getcwd()),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(rows))),
        )
        try:
            yield from (row["answer"] for row in made.iter_rows())
        except ray.exceptions.RayError as wrong:
            last = str(wrong).strip().splitlines()[-1][:300]
            raise ClusterError(f"the cluster did not finish the work ({last}); try again without --ray") from None


class Worker:
    """One process of the cluster: it gets the work, a run loaded in it, and then piece after piece."""

    def __init__(self, work: Callable[[str], str], folder: str) -> None:
        import torch

        with suppress(OSError):  # inputs may be files, named from where the command was given
            os.chdir(folder)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        torch.set_num_threads(1)
        self._work = work

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows with pieces -> rows with answers."""
        return {"answer": [self._work(str(piece)) for piece in batch["piece"]]}


def _chapters(pieces: Iterable[str]) -> Iterator[list[str]]:
    chapter: list[str] = []
    for piece in pieces:
        chapter.append(piece)
        if len(chapter) == CHUNKS_PER_DATASET:
            yield chapter
            chapter = []
    if chapter:
        yield chapter
