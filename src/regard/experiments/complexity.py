"""What a layer costs in time and memory against the length n and the width d, and how long the way is through it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK, Mask
from regard.attention.weigh import Weigh
from regard.experiments._experiment import Cell, ClaimResult, Figures, exponent, format_values, plot_lines

CLAIM = (
    "A layer of self-attention costs O(n²·d), a recurrent one O(n·d²), a convolution O(k·n·d²); attention over a window"
    " O(w·n·d). One end reaches the other in one step of attention, n of recurrence, many layers of convolution."
)
WHERE = "Vaswani et al. 2017, table 1"
LENGTHS, WIDTHS = (512, 1024, 2048, 4096), (64, 128, 256, 512)
LENGTH, WIDTH = 256, 64  # of the other, while one grows
KERNEL, WINDOW = 3, 64
TABLE = "self-attention as a table"
EXPECTED = {
    "self-attention": (2, 1),
    TABLE: (2, 1),
    "local attention": (1, 1),
    "recurrent": (1, 2),
    "convolution": (1, 2),
}
TIME, SAVED_MEMORY = "milliseconds", "kB kept for the gradient"
STEPS = "steps from end to end"
Layer = Callable[[Tensor], Tensor]


def _attention(dim: int, mask: Mask) -> Layer:
    """The mixing alone, as in the paper's table: its projections are d² however it mixes."""
    attend = Attend(scores.build("scaled_dot", dim))
    return lambda x: attend(x[:, None], x[:, None], x[:, None], mask)


def _table(dim: int) -> Layer:
    """The formula as it is written: the weights of all pairs exist."""
    weigh = Weigh(scores.build("scaled_dot", dim))
    return lambda x: weigh(x[:, None], x[:, None]) @ x[:, None]


def _recurrent(dim: int) -> Layer:
    net = nn.LSTM(dim, dim, batch_first=True)
    return lambda x: net(x)[0]


def _convolution(dim: int) -> Layer:
    net = nn.Conv1d(dim, dim, KERNEL, padding=KERNEL // 2)
    return lambda x: net(x.mT)


VARIANTS: dict[str, Callable[[int], Layer]] = {
    "self-attention": lambda dim: _attention(dim, NO_MASK),
    TABLE: _table,
    "local attention": lambda dim: _attention(dim, Mask.local(back=WINDOW, ahead=WINDOW)),
    "recurrent": _recurrent,
    "convolution": _convolution,
}


def cells(effort: float) -> list[Cell]:
    """Times of each kind against the length and against the width, and the way of the gradient."""
    repeats = max(1, round(5 * effort))
    long = LENGTHS if effort >= 1 else LENGTHS[:2]
    sizes = [(n, WIDTH) for n in long] + [(LENGTH, d) for d in WIDTHS[: len(long)]]
    timed = [
        Cell(f"{kind}, n = {n}, d = {d}", partial(_measure, kind, n, d, repeats)) for kind in VARIANTS for n, d in sizes
    ]
    return [*timed, *(Cell(f"{kind}, path", partial(_path, kind)) for kind in VARIANTS)]


def _measure(kind: str, n: int, d: int, repeats: int) -> dict[str, float]:
    layer, x = VARIANTS[kind](d), torch.randn(1, n, d)
    taken = []
    with torch.no_grad():
        layer(x)
        for _ in range(repeats):
            begun = time.process_time()
            layer(x)
            taken.append(time.process_time() - begun)
    return {"n": n, "d": d, TIME: 1000 * median(taken), SAVED_MEMORY: saved_tensor_bytes(layer, x) / 1000}


def saved_tensor_bytes(layer: Layer, x: Tensor) -> int:
    """Bytes of all that a layer keeps for its gradient, each tensor once; its weights are not counted."""
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if not tensor.is_leaf or not tensor.requires_grad:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = layer(x.clone().requires_grad_())
    del result
    return sum(sizes.values())


def _path(kind: str) -> dict[str, float]:
    """How many inputs the last output has a gradient to after one layer, after how many layers to all, and how many
    steps that way has: a recurrent layer goes through every place in between."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # what a recurrent net passes on from far is less than float32 knows
    try:
        x = torch.randn(1, LENGTH, WIDTH, requires_grad=True)
        out = VARIANTS[kind](WIDTH)(x)
    finally:
        torch.set_default_dtype(usual)
    last = out[..., -1] if kind == "convolution" else out.reshape(1, LENGTH, -1)[:, -1]
    (slope,) = torch.autograd.grad(last.sum(), x)
    seen = int((slope.abs().sum(dim=2) > 0).sum())
    layers = -(-(LENGTH - 1) // (seen - 1))
    return {"inputs seen": seen, "layers to all": layers, STEPS: (LENGTH - 1 if kind == "recurrent" else 1) * layers}


def _curve(figures: Figures, kind: str, figure: str, *, along: str = "n") -> dict[float, float]:
    """Of one kind: the length, or the width, -> a figure, while the other stays."""
    stays, size = ("d", WIDTH) if along == "n" else ("n", LENGTH)
    rows = [row for name, row in figures.items() if name.startswith(f"{kind}, n") and row[stays] == size]
    return {row[along]: row[figure] for row in sorted(rows, key=lambda row: row[along])}


def _fitted(figures: Figures, figure: str, *, along: str = "n") -> dict[str, float]:
    """Kind -> the exponent of a figure."""
    curves = {kind: _curve(figures, kind, figure, along=along) for kind in VARIANTS}
    return {kind: exponent(points, points.values()) for kind, points in curves.items()}


def crossover_length(one: dict[float, float], other: dict[float, float]) -> float:
    """The length from which `one`, which grows faster, takes longer than `other`, by straight lines in logarithms."""
    (p, at), (q, beside) = (
        (exponent(points, points.values()), fmean(map(math.log, points.values()))) for points in (one, other)
    )
    middle = fmean(map(math.log, one))
    return math.exp(middle + (beside - at) / (p - q)) if p > q else math.inf


def verdict(figures: Figures) -> ClaimResult:
    """Fitted exponents of the length are as claimed, and attention alone has a way of one step; exponents of the width
    are told, small matrices being faster."""
    by_length, by_width, memory = (
        _fitted(figures, TIME),
        _fitted(figures, TIME, along="d"),
        _fitted(figures, SAVED_MEMORY),
    )
    steps = {kind: figures[f"{kind}, path"][STEPS] for kind in VARIANTS}
    shortest = [kind for kind in VARIANTS if steps[kind] == 1]
    grows = all(abs(by_length[kind] - EXPECTED[kind][0]) < 0.5 for kind in VARIANTS)
    told = "; ".join(
        f"{kind} n^{by_length[kind]:.1f} (claimed {n}) and d^{by_width[kind]:.1f} (claimed {d}), memory"
        f" n^{memory[kind]:.1f}"
        for kind, (n, d) in EXPECTED.items()
    )
    times = {kind: _curve(figures, kind, TIME) for kind in VARIANTS}
    crosses = ", ".join(
        f"{crossover_length(times[TABLE], times[kind]):.0f} for {kind}" for kind in ("recurrent", "convolution")
    )
    return ClaimResult(
        grows and set(shortest) == {"self-attention", TABLE},
        f"Fitted to times: {told}. Judged by the exponents of n; those of d are flattened where small products are far"
        f" from the speed of the machine. Counted operations cross at n = d = {WIDTH}; here the table takes longer from"
        f" n = {crosses}. Steps from the first of {LENGTH} inputs to the last output: {format_values(steps, '.0f')}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Time against length."""
    curves = {kind: _curve(figures, kind, TIME) for kind in VARIANTS}
    plot_lines(axes, curves, x=f"length n (d = {WIDTH})", y="milliseconds")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
