"""Captions by soft attention, the mean of all cells, and by hard attention, one cell that is drawn."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from regard.experiments._experiment import (
    MORE,
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    format_range,
    is_inconclusive,
    is_separated,
    means,
    plot_bars,
    scaled_count,
    seed_values,
)
from regard.experiments._train_small import step_milliseconds, train_small
from regard.training.load_run import LoadedRun

CLAIM = (
    "Soft attention is easier to train than hard: its gradient is exact, where that of a drawn choice is a noisy guess."
)
WHERE = "Xu et al. 2015, section 4"
STEPS = 1200
VARIANTS = ("soft", "hard")
NUM_GRADIENT_SAMPLES = 8  # gradients of one batch
MIN_DIFFERENCE = 5.0  # BLEU-4: seeds that differ by more, and lie among each other, decide nothing
BLEU, NOISE, TIME = "BLEU-4", "variance of the gradient", "milliseconds a step"


def cells(effort: float) -> list[Cell]:
    """Both, trained alike on scenes of coloured shapes."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    settings = [
        *(
            f"data.scenes={scaled_count(effort, 1500, 40)}",
            "data.height=32",
            "data.width=32",
            "data.objects_per_scene=[1, 2]",
        ),
        *("data.batch_size=24", "model=captioner", f"model.attention={kind}", "model.dim=64", "model.embedding=32"),
        *("model.feature_dim=32", "model.dropout=0.0", "model.coverage_weight=0.0", "training.optimizer.lr=0.003"),
        *(
            "model.score=scaled_dot",
            "model.word_dropout=0.3",
            "model.policy_weight=0.1",
            f"model.hard_warmup={steps // 4}",
        ),
        "decoding=greedy",
    ]
    with train_small("captioning", settings, steps=steps, seed=seed) as made:
        return {
            BLEU: made.scores["bleu4"],
            "pointing": made.scores["pointing"],
            NOISE: _noise(made.parts),
            TIME: step_milliseconds(made.parts),
        }


def _noise(parts: LoadedRun) -> float:
    """The variance of the gradient of one batch, all weights together, as a share of its mean squared."""
    task = parts.task
    model: Any = parts.model
    model.word_dropout = 0.0  # what is drawn is where to look, and no more
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    batch, drawn = task.collate(task.epoch_batches(0, 1)[0]), []
    model.train()
    for seed in range(NUM_GRADIENT_SAMPLES):
        torch.manual_seed(seed)
        slopes = torch.autograd.grad(task.loss(model, batch).total, weights, allow_unused=True)
        drawn.append(torch.cat([slope.flatten() for slope in slopes if slope is not None]))
    model.eval()
    every = torch.stack(drawn)
    return float(every.var(dim=0).sum() / every.mean(dim=0).square().sum())


def verdict(figures: Figures) -> ClaimResult:
    """Soft attention tells better captions by gradients with less variance, with every seed."""
    bleu, noise, taken, pointing = (means(figures, figure) for figure in (BLEU, NOISE, TIME, "pointing"))
    told = "; ".join(
        f"{kind}: {bleu[kind]:.1f} BLEU-4, looks at the right place for {pointing[kind]:.0f} % of the words, variance"
        f" of the gradient {noise[kind]:.2g} of its square, {taken[kind]:.0f} ms a step"
        for kind in VARIANTS
    )
    told_well, noisy = seed_values(figures, BLEU), seed_values(figures, NOISE)
    both = told_well["hard"], told_well["soft"]
    unclear = is_inconclusive(*both, MIN_DIFFERENCE)
    more = (
        f" Seeds differ by more than the two do ({format_range(*both, form='.0f')} BLEU-4); {MORE}." if unclear else ""
    )
    holds = None if unclear else is_separated(*both) and is_separated(noisy["soft"], noisy["hard"])
    return ClaimResult(holds, f"{told}. {describe_seeds(figures)}.{more}")


def draw(figures: Figures, axes: Any) -> None:
    """Quality of both, and the variance below it."""
    shares = {
        figure: {kind: [value / 100 for value in values] for kind, values in seed_values(figures, figure).items()}
        for figure in (BLEU, "pointing")
    }
    noise = means(figures, NOISE)
    plot_bars(axes, {f"{name} / 100": each for name, each in shares.items()}, y="share")
    axes.set_xticks(range(len(VARIANTS)), [f"{kind}\nvariance of the gradient {noise[kind]:.2g}" for kind in VARIANTS])
