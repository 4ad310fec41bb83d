"""Seeding without state to restore: every training step is seeded from (seed, step, process)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def combine_seeds(*parts: int) -> int:
    """Integers -> one 63-bit seed; neighboring inputs give unrelated seeds."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def seed_all(*parts: int) -> None:
    """Seed the generators of Python, NumPy and torch."""
    seed = combine_seeds(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Restore the generators of Python, NumPy and torch after the block."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=gpus):
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
