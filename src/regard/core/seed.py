"""Randomness without state to replay: every step is seeded from (seed, step, process)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def combine_seeds(*parts: int) -> int:
    """One 63-bit seed from several numbers; neighbouring inputs give unrelated seeds."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def seed_all(*parts: int) -> None:
    """Seed Python, NumPy and torch for what follows."""
    seed = combine_seeds(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Whatever is seeded and drawn inside, the generators of Python, NumPy and torch are as they were afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=gpus):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
