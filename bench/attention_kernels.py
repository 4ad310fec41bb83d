"""The kernels that bench/attention.py compares, and the measurement of one kernel in a separate process."""

from __future__ import annotations

import ctypes
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.layers.positions.relative import Relative

HEADS, DIM, WINDOW = 8, 64, 256
Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]  # three (b h n d) -> (b h n d)


def plain(n: int, mask: Mask) -> Kernel:
    """Compute the formula with plain PyTorch operations."""
    allowed = mask.dense(n, n)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / math.sqrt(DIM)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        return scores.softmax(dim=-1) @ v

    return run


def regard_kernel(mask: Mask) -> Kernel:
    attend = Attend(scores.build("scaled_dot", DIM))
    return lambda q, k, v: attend(q, k, v, mask)


def additive() -> Kernel:
    score = scores.build("additive", DIM)
    attend = Attend(score)
    return lambda q, k, v: attend(q, attend.project(k), v)


def plain_additive() -> Kernel:
    w, u = nn.Linear(DIM, DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
    weight = nn.Linear(DIM, 1, bias=False)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = weight(torch.tanh(w(q)[..., :, None, :] + u(k)[..., None, :, :])).squeeze(-1)
        return scores.softmax(dim=-1) @ v

    return run


def relative(n: int) -> Kernel:
    attend = Attend(
        scores.build("scaled_dot", DIM), position_bias=Relative(HEADS, DIM, max_distance=n - 1, max_ahead=0)
    )
    return lambda q, k, v: attend(q, k, v, Mask.causal())


def naive_relative(n: int) -> Kernel:
    """Compute relative attention with a vector gathered for every pair: (t s d) for each head. One head only: see
    HEADS_OF.
    """
    table = nn.Parameter(torch.randn(1, n, DIM) * DIM**-0.5)
    distance = (torch.arange(n)[:, None] - torch.arange(n)).clamp_min(0)
    ahead = torch.ones(n, n, dtype=torch.bool).triu(1)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        met = (table[:, distance] @ q[..., None]).squeeze(-1)  # (1 h t s)
        scores = (q @ k.mT + met) / math.sqrt(DIM)
        return scores.masked_fill(ahead, float("-inf")).softmax(dim=-1) @ v

    return run


def image(n: int) -> Mask:
    """Return the mask of an almost square image of n pixels: blocks of 8 x 16, 8 rows above, 8 columns at each side."""
    height = 2 ** (int(math.log2(n)) // 2)
    return Mask.causal() & Mask.image(height, n // height, query=(8, 16), memory=(8, 8))


KERNELS: dict[str, Callable[[int], Kernel]] = {
    "full: formula": lambda n: plain(n, Mask()),
    "full: SDPA": lambda n: scaled_dot_product_attention,
    "full: regard": lambda n: regard_kernel(Mask()),
    "causal: formula": lambda n: plain(n, Mask.causal()),
    "causal: SDPA": lambda n: lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True),
    "causal: regard": lambda n: regard_kernel(Mask.causal()),
    "additive: formula": lambda n: plain_additive(),
    "additive: regard": lambda n: additive(),
    "relative: naive gather": naive_relative,
    "relative: regard": relative,
    "local 1-D: regard": lambda n: regard_kernel(Mask.causal() & Mask.local(back=WINDOW)),
    "local 2-D: regard": lambda n: regard_kernel(image(n)),
}
HEADS_OF = {"relative: naive gather": 1}  # eight heads at 4096 would need 34 GB


def inputs(n: int, heads: int) -> tuple[list[Tensor], Tensor]:
    """Return queries, keys and values in the memory layout of an attention layer, and a gradient for the output."""
    tensors = [torch.randn(1, n, heads, DIM).transpose(1, 2) for _ in range(4)]
    return [x.requires_grad_() for x in tensors[:3]], tensors[3]


def passes(kernel: Kernel, n: int, heads: int) -> dict[str, Callable[[], None]]:
    tensors, change = inputs(n, heads)

    def forward() -> None:
        with torch.no_grad():
            kernel(*tensors)

    def both() -> None:
        kernel(*tensors).backward(change)
        for x in tensors:
            x.grad = None

    return {"forward": forward, "both": both}


def timed(run: Callable[[], None], *, seconds: float, most: int) -> list[float]:
    """Return the milliseconds of each repetition."""
    times: list[float] = []
    while len(times) < most and (len(times) < 3 or sum(times) < 1000 * seconds):
        start = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - start))
        if times[-1] > 1000 * seconds:
            break
    return times


def status(field: str) -> float:
    """Return VmRSS or VmHWM of this process in MB."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def peak(run: Callable[[], None]) -> float:
    """Return the increase of this process's memory during a call in MB."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # returns freed memory to the system, so that it is counted again
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")  # forget the old high-water mark
    before = status("VmRSS")
    run()
    return max(0.0, status("VmHWM") - before)


def measure(name: str, n: int) -> dict[str, dict[str, float]]:
    """Time and memory of one kernel; a heavy one is timed by the run whose memory is measured."""
    heads = HEADS_OF.get(name, HEADS)
    runs = passes(KERNELS[name](n), n, heads)
    passes(regard_kernel(Mask()), 64, heads)["both"]()  # start threads and load libraries before the measurement
    results = {}
    for kind, run in runs.items():
        start = time.perf_counter()
        memory = peak(run)
        first = 1000 * (time.perf_counter() - start)
        times = timed(run, seconds=0.5, most=20) if first < 8000 else [first]
        results[kind] = {"ms": statistics.median(times), "mb": memory, "heads": heads}
    return results


def compare(kind: str, n: int) -> dict[str, float]:
    """Return the ratio of regard's time to that of SDPA called directly; the two alternate in one process."""
    sdpa, two = (passes(KERNELS[f"{kind}: {name}"](n), n, HEADS) for name in ("SDPA", "regard"))
    ratios = {}
    for part in ("forward", "both"):
        pairs = []
        repetitions = 400 if n <= 512 else 60 if n <= 2048 else 14
        for turn in range(repetitions + 2):
            order = (sdpa, two) if turn % 2 else (two, sdpa)  # who goes first is no advantage
            times = {id(runs): timed(runs[part], seconds=0.0, most=1)[0] for runs in order}
            pairs.append((times[id(sdpa)], times[id(two)]))
        ratios[part] = statistics.median(b for _, b in pairs[2:]) / statistics.median(a for a, _ in pairs[2:])
    return ratios


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("BENCH_THREADS", os.cpu_count() or 1)))
    torch.manual_seed(0)
    command, name, size = sys.argv[1:]
    print(json.dumps((measure if command == "measure" else compare)(name, int(size))))
