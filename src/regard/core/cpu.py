"""The processor: cores this process may use, load of the machine, and threads that suit a model."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

MIN_PARALLEL_DIM = 512  # rows and columns of a matrix from which a second thread pays for a single input
LOADAVG_PATH = Path(
    "/proc/loadavg"
)  # "0.20 0.18 0.12 1/80 11206": the fourth is how many run now, of how many there are
IDLE_CHECK_DELAYS_S = (0.0, 0.002, 0.005, 0.01)  # seconds between looks at it


def available_cores() -> int:
    """How many processes are worth while: the cores this process may use, or one where it cannot be forked."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_idle() -> bool:
    """Whether nothing but this process runs on the machine, at one of a few moments at least: what the system itself
    does now and then takes no core. Threads that wait for each other at every small product are fast there, and a
    hundred times slower beside another program."""
    return any(_is_alone(after) for after in IDLE_CHECK_DELAYS_S)


def _is_alone(after: float) -> bool:
    """Whether this process alone runs, so many seconds later; False where that is not told."""
    time.sleep(after)
    try:
        return int(LOADAVG_PATH.read_text(encoding="ascii").split()[3].partition("/")[0]) <= 1
    except (OSError, ValueError, IndexError):
        return False


def recommended_threads(model: nn.Module) -> int:
    """How many threads answer a few inputs fastest: one for each core if weights are wide, else one."""
    wide = any(min(weight.shape) >= MIN_PARALLEL_DIM for weight in model.parameters() if weight.dim() == 2)
    return available_cores() if wide else 1
