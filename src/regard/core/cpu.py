"""The CPU: available cores, whether the machine is idle, and a suitable number of threads."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

MIN_PARALLEL_DIM = 512  # rows and columns of a matrix from which a second thread pays off for a single input
# "0.20 0.18 0.12 1/80 11206": the fourth field is running/existing scheduling entities
LOADAVG_PATH = Path("/proc/loadavg")
IDLE_CHECK_DELAYS_S = (0.0, 0.002, 0.005, 0.01)  # before each load sample


def available_cores() -> int:
    """Return the number of cores this process may use; 1 if processes cannot be forked on this system."""
    if not hasattr(os, "fork"):  # multiprocessing knows too, but its import slows the start-up
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_idle() -> bool:
    """Return True if no other process was running in at least one of a few load samples.

    Short background activity of the system does not count. Threads that synchronize at every small matrix product are
    fast on an idle machine, and a hundred times slower when another program is running.
    """
    return any(_is_idle_after(delay_s) for delay_s in IDLE_CHECK_DELAYS_S)


def _is_idle_after(delay_s: float) -> bool:
    """Return True if only this process runs after a delay; False if the system does not report its load."""
    time.sleep(delay_s)
    try:
        return int(LOADAVG_PATH.read_text(encoding="ascii").split()[3].partition("/")[0]) <= 1
    except (OSError, ValueError, IndexError):
        return False


def recommended_threads(model: nn.Module) -> int:
    """Return the fastest number of threads for a few inputs: all cores if the model has wide weights, else 1."""
    wide = any(min(weight.shape) >= MIN_PARALLEL_DIM for weight in model.parameters() if weight.dim() == 2)
    return available_cores() if wide else 1
