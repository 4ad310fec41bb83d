"""Comparisons of regard with peers on one work, and their measurement in this process; bench/all.py runs them.

bench/text.py, bench/images.py and bench/predictions.py define comparisons.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from regard.training.device import keep_freed_memory
from regard.training.precision import autocast, resolve_dtype

CPU = torch.device("cpu")
MODULES = {  # work -> the module that defines it
    **dict.fromkeys(("gpt", "gpt_words", "generation", "exported", "bert", "hierarchical", "word2vec"), "text"),
    **dict.fromkeys(("vit", "sampling", "memory"), "images"),
    **dict.fromkeys(("documents", "tags", "recommendation", "captions"), "predictions"),
}
HALF, COMPILED = " bfloat16", " bfloat16 compiled"  # ends of the names of peers with these settings
Work = Callable[[], float]  # does some work -> the number of units
Systems = dict[str, Callable[[], Work]]  # the first is regard


class Bench(NamedTuple):
    """The systems of a comparison (small ones for a smoke test), and their measurement."""

    systems: Callable[[bool], Systems]
    names: tuple[str, ...]  # of the systems
    unit: str  # tokens/s; bytes
    seconds: float = 5.0  # minimum duration of the work; 0: run once, the figure is its result, and less is better
    warm: bool = True  # run once before the measurement: the first call of a kernel is slow


def find(work: str) -> Bench:
    """Return the comparison of a work."""
    bench: Bench = importlib.import_module(MODULES[work]).BENCHES[work]
    return bench


def measure(bench: Bench, system: str, *, quick: bool = False) -> dict[str, float]:
    """Return the rate of one system by wall time, or its bytes."""
    if system.startswith("regard"):
        keep_freed_memory()  # as regard's own commands do
    torch.manual_seed(0)
    work = bench.systems(quick)[system]()
    gc.freeze()  # as regard's commands do; for peers too, so that no system's objects are visited again
    if not bench.seconds:
        return {"bytes": work()}
    for _ in range(2 if bench.warm else 0):  # the second call of a compiled step is also slow
        work()
    least = min(0.1, bench.seconds) if quick else bench.seconds
    started_at, units, seconds = time.perf_counter(), 0.0, 0.0
    while seconds < least:
        units += work()
        seconds = time.perf_counter() - started_at
    return {"rate": units / seconds}


def variants(name: str, step: Callable[[torch.dtype, bool], Work]) -> Systems:
    """Return a peer in float32, in bfloat16, and in bfloat16 compiled: `step(dtype, is_compiled)`."""
    return {
        name: lambda: step(torch.float32, False),
        name + HALF: lambda: step(torch.bfloat16, False),
        name + COMPILED: lambda: step(torch.bfloat16, True),
    }


def named(*names: str) -> tuple[str, ...]:
    """Return the names of regard's and the peers' variants in training."""
    return ("regard", *(name + end for name in names for end in ("", HALF, COMPILED)))


def training(
    model: torch.nn.Module, loss: Callable[[], torch.Tensor], units: int, *, dtype: torch.dtype, compiled: bool = False
) -> Work:
    """Return a training step of a peer; the optimizer is that of its own script on a CPU."""
    return _step(model, torch.compile(loss) if compiled else loss, units, dtype=dtype, fused=None)


def regard_training(model: torch.nn.Module, loss: Callable[[], torch.Tensor], units: int) -> Work:
    """Return a training step with the settings of `regard train`: precision=auto, fused optimizer."""
    return _step(model, loss, units, dtype=resolve_dtype("auto", CPU, model), fused=True)


def _step(model: torch.nn.Module, loss: Any, units: int, *, dtype: torch.dtype, fused: bool | None) -> Work:
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-3, fused=fused)

    def step() -> float:
        with autocast(CPU, dtype):
            value = loss()
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return units

    return step
