"""How much of the gradient at the last output reaches inputs that are long past."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.experiments._experiment import Cell, ClaimResult, Figures, means, plot_lines
from regard.layers.multihead import HeadDims, MultiHeadAttention

CLAIM = "Recurrent networks lose what came early; attention shortens the way from an output to any input to one step."
WHERE = "Bahdanau et al. 2015, section 1; Vaswani et al. 2017, table 1"
DIM, BATCH_SIZE, LENGTH = 32, 16, 128
DISTANCES = (1, 8, 32, 64, 127)
SEEDS = 3
Net = Callable[[Tensor], Tensor]  # inputs (b t d) -> the last output (b d)


def _recurrent(kind: type[nn.RNN | nn.LSTM]) -> Net:
    net: nn.Module = kind(DIM, DIM, batch_first=True).double()
    return lambda x: net(x)[0][:, -1]


def _attention() -> MultiHeadAttention:
    return MultiHeadAttention(Attend(scores.build("scaled_dot", DIM)), HeadDims.split_evenly(DIM, 1)).double()


def _over_states() -> Net:
    net, heads = nn.LSTM(DIM, DIM, batch_first=True).double(), _attention()

    def last(x: Tensor) -> Tensor:
        states = net(x)[0]
        out: Tensor = heads(states[:, -1:], heads.project_kv(states))[:, 0]
        return out

    return last


def _self_attention() -> Net:
    heads = _attention()
    return lambda x: heads(x, heads.project_kv(x), Mask.causal())[:, -1]


NETS: dict[str, Callable[[], Net]] = {
    "RNN": lambda: _recurrent(nn.RNN),
    "LSTM": lambda: _recurrent(nn.LSTM),
    "LSTM with attention": _over_states,
    "self-attention": _self_attention,
}


def cells(effort: float) -> list[Cell]:
    """Each network as it begins, three seeds; nothing is trained, so that effort does not matter."""
    return [
        Cell(f"{name}, seed {seed}", partial(_measure, name, seed)) for name in NETS for seed in range(1, SEEDS + 1)
    ]


def _measure(name: str, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    net, x = NETS[name](), torch.randn(BATCH_SIZE, LENGTH, DIM, dtype=torch.float64, requires_grad=True)
    out = net(x)
    (slope,) = torch.autograd.grad((out * torch.randn_like(out)).sum(), x)
    by_place = slope.norm(dim=2).mean(dim=0)  # (t)
    total = float(by_place.sum())
    return {f"{distance} back": float(by_place[LENGTH - 1 - distance]) / total for distance in DISTANCES}


def _lost(figures: Figures, name: str) -> float:
    """The gradient one step back over that at the farthest input."""
    near, far = (means(figures, f"{distance} back")[name] for distance in (DISTANCES[0], DISTANCES[-1]))
    return near / far


def verdict(figures: Figures) -> ClaimResult:
    """Recurrent networks lose orders of magnitude over the distance, attention does not."""
    lost = {name: _lost(figures, name) for name in NETS}
    told = ", ".join(f"{name} {value:.2g}" for name, value in lost.items())
    holds = min(lost["RNN"], lost["LSTM"]) > 100 and max(lost["LSTM with attention"], lost["self-attention"]) < 10
    return ClaimResult(
        holds,
        f"The gradient at the input one step back is so many times that at the input {DISTANCES[-1]} steps back, before"
        f" any training: {told}. Mean of {SEEDS} seeds, width {DIM}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Share of the gradient against distance."""
    curves = {
        name: {float(distance): means(figures, f"{distance} back")[name] for distance in DISTANCES} for name in NETS
    }
    plot_lines(axes, curves, x="steps back", y="share of the gradient")
    axes.set_yscale("log")
