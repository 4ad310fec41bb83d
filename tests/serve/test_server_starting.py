"""What is served is found out before several processes are started; threads are those that pay."""

from __future__ import annotations

import torch
from torch import nn

from regard.core import cpu
from regard.serve.server import set_torch_threads


def test_threads_are_for_wide_models_and_shared_between_processes(monkeypatch):
    used = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr(cpu, "available", lambda: 8)
    narrow, wide = nn.Linear(8, 8), nn.Linear(cpu.MIN_PARALLEL_DIM, cpu.MIN_PARALLEL_DIM)
    for models, processes in (([narrow], 1), ([narrow, wide], 1), ([wide], 2), ([wide], 100), ([], 1)):
        set_torch_threads(models, processes=processes)
    assert used == [1, 8, 4, 1, 1]
