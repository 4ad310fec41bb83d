"""Time and memory of layers against the length n and the width d, and the path length through them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK, Mask
from regard.attention.weigh import Weigh
from regard.experiments._experiment import Cell, exponent
from regard.experiments._plots import plot_lines
from regard.experiments._verdict import ClaimResult, Figures, decide, format_values, power_law

CLAIM = (
    "A layer of self-attention costs O(n²·d), a recurrent layer O(n·d²), a convolution O(k·n·d²), and attention over a"
    " window O(w·n·d). The path between the ends of the input has O(1) steps in attention, O(n) in recurrence, O(n/k)"
    " in convolution and O(log_k n) in dilated convolutions."
)
REFERENCE = "Vaswani et al. 2017, table 1; Kalchbrenner et al. 2016, section 3.3"
LENGTHS, WIDTHS = (512, 1024, 2048, 4096), (64, 128, 256, 512)
LENGTH, WIDTH = 256, 64  # fixed value of one while the other varies
KERNEL, WINDOW = 3, 64
DILATED = "dilated convolution"
TABLE = "self-attention, explicit weights"
EXPECTED = {
    "self-attention": (2, 1),
    TABLE: (2, 1),
    "local attention": (1, 1),
    "recurrent": (1, 2),
    "convolution": (1, 2),
    DILATED: (1, 2),
}
TIME, SAVED_MEMORY = "milliseconds", "kB saved for backward"
STEPS, REACHED = "path length", "inputs reached by one step"
MAX_EXPONENT_ERROR = 0.5
Layer = Callable[[Tensor], Tensor]


def _attention(dim: int, mask: Mask) -> Layer:
    """Attention without projections, as in the table of the paper: projections always cost d²."""
    attend = Attend(scores.build("scaled_dot", dim))
    return lambda x: attend(x[:, None], x[:, None], x[:, None], mask)


def _explicit_attention(dim: int) -> Layer:
    """Attention that materializes the weights of all pairs."""
    weigh = Weigh(scores.build("scaled_dot", dim))
    return lambda x: weigh(x[:, None], x[:, None]) @ x[:, None]


def _recurrent(dim: int) -> Layer:
    net = nn.LSTM(dim, dim, batch_first=True)
    return lambda x: net(x)[0]


def _convolution(dim: int) -> Layer:
    net = nn.Conv1d(dim, dim, KERNEL, padding=KERNEL // 2)
    return lambda x: net(x.mT).mT


def _dilated_convolution(dim: int, *, dilation: int) -> Layer:
    """A convolution over inputs that are `dilation` apart, the last of them at the position of the output."""
    net = nn.Conv1d(dim, dim, KERNEL, dilation=dilation)
    return lambda x: net(pad(x.mT, ((KERNEL - 1) * dilation, 0))).mT


def _recurrent_step(dim: int) -> Layer:
    """One step of a recurrent layer at all positions: new states of the inputs and the states one position before."""
    cell = nn.LSTMCell(dim, dim)

    def step(x: Tensor) -> Tensor:
        previous = pad(x, (0, 0, 1, 0))[0, :-1]  # (t d)
        hidden: Tensor = cell(x[0], (previous, previous))[0]
        return hidden[None]

    return step


VARIANTS: dict[str, Callable[[int], Layer]] = {
    "self-attention": lambda dim: _attention(dim, NO_MASK),
    TABLE: _explicit_attention,
    "local attention": lambda dim: _attention(dim, Mask.local(back=WINDOW, ahead=WINDOW)),
    "recurrent": _recurrent,
    "convolution": _convolution,
    DILATED: lambda dim: _dilated_convolution(dim, dilation=KERNEL),
}


def cells(effort: float) -> list[Cell]:
    """Return timings of each layer against the length and the width, and its path length."""
    repeats = max(1, round(5 * effort))
    lengths = LENGTHS if effort >= 1 else LENGTHS[:2]
    sizes = [(n, WIDTH) for n in lengths] + [(LENGTH, d) for d in WIDTHS[: len(lengths)]]
    timings = [
        Cell(f"{kind}, n = {n}, d = {d}", partial(_measure, kind, n, d, repeats)) for kind in VARIANTS for n, d in sizes
    ]
    return [*timings, *(Cell(f"{kind}, path", partial(_measure_path, kind)) for kind in VARIANTS)]


def _measure(kind: str, n: int, d: int, repeats: int) -> dict[str, float]:
    layer, x = VARIANTS[kind](d), torch.randn(1, n, d)
    seconds = []
    with torch.no_grad():
        layer(x)
        for _ in range(repeats):
            started_at = time.process_time()
            layer(x)
            seconds.append(time.process_time() - started_at)
    return {"n": n, "d": d, TIME: 1000 * median(seconds), SAVED_MEMORY: saved_tensor_bytes(layer, x) / 1000}


def saved_tensor_bytes(layer: Layer, x: Tensor) -> int:
    """Return the bytes that a layer saves for backward, each tensor once and without parameters."""
    sizes: dict[int, int] = {}

    def record_size(tensor: Tensor) -> Tensor:
        if not tensor.is_leaf or not tensor.requires_grad:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record_size, lambda tensor: tensor):
        result = layer(x.clone().requires_grad_())
    del result
    return sum(sizes.values())


def _measure_path(kind: str) -> dict[str, float]:
    """Return the number of steps from the first input to the last output, and the inputs that one step reaches."""
    torch.manual_seed(0)
    reached, steps, first_reached = {LENGTH - 1}, 0, 0
    while 0 not in reached:
        reached = _inputs_of(_path_step(kind, steps), reached)
        steps += 1
        first_reached = first_reached or len(reached)
    return {REACHED: first_reached, STEPS: steps}


def _path_step(kind: str, index: int) -> Layer:
    """Return the step with this index on the path: a layer, or one step in time of a recurrent layer."""
    if kind == "recurrent":
        return _recurrent_step(WIDTH)
    if kind == DILATED:
        return _dilated_convolution(WIDTH, dilation=KERNEL**index)
    return VARIANTS[kind](WIDTH)


def _inputs_of(step: Layer, outputs: set[int]) -> set[int]:
    """Return the positions of the inputs that these positions of the output depend on, by their gradients."""
    x = torch.randn(1, LENGTH, WIDTH, requires_grad=True)
    out = step(x).reshape(LENGTH, -1)[sorted(outputs)]
    (gradient,) = torch.autograd.grad((out * torch.rand_like(out)).sum(), x)
    return set(gradient[0].abs().sum(dim=1).nonzero()[:, 0].tolist())


def _curve(figures: Figures, kind: str, figure: str, *, along: str = "n") -> dict[float, float]:
    """Return a figure of one layer by length or by width, with the other fixed."""
    fixed, size = ("d", WIDTH) if along == "n" else ("n", LENGTH)
    rows = [row for name, row in figures.items() if name.startswith(f"{kind}, n = ") and row[fixed] == size]
    return {row[along]: row[figure] for row in sorted(rows, key=lambda row: row[along])}


def _fit_exponents(figures: Figures, figure: str, *, along: str = "n") -> dict[str, float]:
    """Return the fitted exponent of a figure by layer."""
    curves = {kind: _curve(figures, kind, figure, along=along) for kind in VARIANTS}
    return {kind: exponent(points, points.values()) for kind, points in curves.items()}


def crossover_length(faster_growing: dict[float, float], slower_growing: dict[float, float]) -> float:
    """Return the length from which the first curve is above the second, by linear fits of the logarithms."""
    (p, first_mean), (q, second_mean) = (
        (exponent(points, points.values()), fmean(map(math.log, points.values())))
        for points in (faster_growing, slower_growing)
    )
    mean_log_length = fmean(map(math.log, faster_growing))
    return math.exp(mean_log_length + (second_mean - first_mean) / (p - q)) if p > q else math.inf


def verdict(figures: Figures) -> ClaimResult:
    """Check that the exponents of the length are as claimed, and that only attention has a path of one step.

    Exponents of the width are only reported, because small matrices are faster.
    """
    by_length, by_width, memory = (
        _fit_exponents(figures, TIME),
        _fit_exponents(figures, TIME, along="d"),
        _fit_exponents(figures, SAVED_MEMORY),
    )
    steps = {kind: figures[f"{kind}, path"][STEPS] for kind in VARIANTS}
    log_length = math.ceil(math.log(LENGTH, KERNEL))
    conditions = {
        f"every fitted exponent of n is within {MAX_EXPONENT_ERROR} of the claimed one": all(
            abs(by_length[kind] - EXPECTED[kind][0]) < MAX_EXPONENT_ERROR for kind in VARIANTS
        ),
        "the path has one step in self-attention and n - 1 in recurrence": steps["self-attention"] == steps[TABLE] == 1
        and steps["recurrent"] == LENGTH - 1,
        "between 2 and n - 1 steps in local attention and convolution": all(
            1 < steps[kind] < LENGTH for kind in ("local attention", "convolution")
        ),
        f"⌈log_{KERNEL} n⌉ = {log_length} steps in dilated convolutions": steps[DILATED] == log_length,
    }
    details = "; ".join(
        f"{kind} n^{by_length[kind]:.1f} (claimed {n}) and d^{by_width[kind]:.1f} (claimed {d}), memory"
        f" n^{memory[kind]:.1f}"
        for kind, (n, d) in EXPECTED.items()
    )
    times = {kind: _curve(figures, kind, TIME) for kind in VARIANTS}
    crossovers = ", ".join(
        f"{crossover_length(times[TABLE], times[kind]):.0f} for {kind}" for kind in ("recurrent", "convolution")
    )
    effects = [power_law(f"exponent of n in the time, {kind}", times[kind], times[kind].values()) for kind in VARIANTS]
    return decide(
        f"Fitted to times: {details}. The verdict uses the exponents of n; those of d are smaller than claimed because"
        f" small matrix products do not reach the peak speed of the machine. Operation counts cross at n = d = {WIDTH};"
        f" here explicit weights take longer from n = {crossovers}. Path length from the first of {LENGTH} inputs to"
        f" the last output: {format_values(steps, '.0f')}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot time against length."""
    curves = {kind: _curve(figures, kind, TIME) for kind in VARIANTS}
    plot_lines(axes, curves, x=f"length n (d = {WIDTH})", y="milliseconds")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
