"""Seeds depend on (seed, step, process) alone."""

from __future__ import annotations

import random

import numpy as np
import torch

from regard.core.seed import combine_seeds, preserve_rng_state, seed_all


def draws():
    return random.random(), float(np.random.rand()), float(torch.rand(1))


def test_equal_seeds_give_equal_draws():
    seed_all(1, 2, 3)
    first = draws()
    draws()
    seed_all(1, 2, 3)
    assert draws() == first


def test_neighboring_seeds_are_unrelated():
    seeds = [combine_seeds(1, step, process) for step in range(200) for process in range(2)]
    assert len(set(seeds)) == 400 and all(0 <= seed < 2**63 for seed in seeds)
    high = sum(seed >> 62 for seed in seeds)
    assert 140 < high < 260  # the top bit is set half of the time
    assert combine_seeds(1, 2) != combine_seeds(2, 1)


def test_generator_states_are_restored():
    seed_all(7)
    draws()
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    with preserve_rng_state():
        seed_all(1, 2)
        draws()
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states
