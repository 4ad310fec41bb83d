"""Image captioning with soft attention, the weighted mean of all cells, and hard attention, one sampled cell."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import plot_bars
from regard.experiments._train_small import step_milliseconds, train_small
from regard.experiments._verdict import (
    MORE,
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    format_range,
    is_inconclusive,
    is_separated,
    means,
    seed_values,
)
from regard.training.load_run import LoadedRun

CLAIM = (
    "Soft attention is easier to train than hard attention: its gradient is exact, whereas the gradient of a sampled"
    " choice is noisy."
)
REFERENCE = "Xu et al. 2015, section 4"
STEPS = 1000
CURVE = "validation BLEU-4"
MIXED = "hard, mixed with soft"  # the variance reductions of the paper
VARIANTS = {
    "soft": ("model.attention=soft",),
    "hard": ("model.attention=hard", "model.soft_prob=0.0", "model.hard_warmup=0", "model.policy_weight=1.0"),
    MIXED: ("model.attention=hard", "model.soft_prob=0.5", "model.policy_weight=0.1"),
}
WARMUP_FRACTION = 0.25  # of the steps, without a policy gradient in the mixture
NUM_GRADIENT_SAMPLES = 8  # gradients of one batch
MIN_DIFFERENCE = 5.0  # BLEU-4; overlapping seeds that differ by more are inconclusive
BLEU, NOISE, TIME = "BLEU-4", "gradient variance", "milliseconds per step"


def cells(effort: float) -> list[Cell]:
    """Return a cell for each kind, trained in the same way on scenes of coloured shapes."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    settings = [
        *(
            f"data.scenes={scaled_count(effort, 1500, 40)}",
            "data.height=24",
            "data.width=24",
            "data.objects_per_scene=[1, 1]",
        ),
        *("data.batch_size=24", "model=captioner", *VARIANTS[kind], "model.dim=64", "model.embedding=32"),
        *("model.feature_dim=32", "model.dropout=0.0", "model.coverage_weight=0.0", "training.optimizer.lr=0.003"),
        *("model.score=scaled_dot", "model.word_dropout=0.3"),
        *([f"model.hard_warmup={round(WARMUP_FRACTION * steps)}"] if kind == MIXED else []),
        "decoding=greedy",
    ]
    with train_small("captioning", settings, steps=steps, seed=seed) as trained:
        return {
            BLEU: trained.scores["bleu4"],
            "pointing": trained.scores["pointing"],
            NOISE: _gradient_variance(trained.run),
            TIME: step_milliseconds(trained.run),
            **trained.late_gain("bleu4", resolution=MIN_DIFFERENCE),
        }


def _gradient_variance(run: LoadedRun) -> float:
    """Return the variance of the gradient of one batch, over all parameters, relative to its squared mean."""
    task = run.task
    model: Any = run.model
    model.word_dropout = 0.0  # only the attention is sampled
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    batch, samples = task.collate(task.epoch_batches(0, 1)[0]), []
    model.train()
    for seed in range(NUM_GRADIENT_SAMPLES):
        torch.manual_seed(seed)
        gradients = torch.autograd.grad(task.loss(model, batch).total, parameters, allow_unused=True)
        samples.append(torch.cat([gradient.flatten() for gradient in gradients if gradient is not None]))
    model.eval()
    stacked = torch.stack(samples)
    return float(stacked.var(dim=0).sum() / stacked.mean(dim=0).square().sum())


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed of soft attention has better captions and gradients of less variance."""
    bleu, noise, milliseconds, pointing = (means(figures, figure) for figure in (BLEU, NOISE, TIME, "pointing"))
    details = "; ".join(
        f"{kind}: {bleu[kind]:.1f} BLEU-4, attends to the right region for {pointing[kind]:.0%} of the words,"
        f" gradient variance {noise[kind]:.2g} of its squared mean, {milliseconds[kind]:.0f} ms per step"
        for kind in VARIANTS
    )
    bleu_by_seed, noise_by_seed = seed_values(figures, BLEU), seed_values(figures, NOISE)
    both = bleu_by_seed["hard"], bleu_by_seed["soft"]
    unclear = is_inconclusive(*both, MIN_DIFFERENCE)
    noises = noise_by_seed["soft"], noise_by_seed["hard"]
    conditions = {
        "every seed of soft attention has a higher BLEU-4 than every seed of hard attention": is_separated(*both),
        "a lower gradient variance": is_separated(*noises),
    }
    effects = [
        difference("BLEU-4, soft minus hard", both[1], both[0], form="+.1f"),
        difference("gradient variance, hard minus soft", noises[1], noises[0]),
    ]
    return decide(
        f"{details}. {describe_seeds(figures)}.",
        conditions,
        effects,
        undecided=f"Seeds differ more than models ({format_range(*both, form='.0f')} BLEU-4); {MORE}."
        if unclear
        else "",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the quality of each kind, with the gradient variance below."""
    noise = means(figures, NOISE)
    plot_bars(axes, {BLEU: seed_values(figures, BLEU)}, y=BLEU)
    axes.set_xticks(range(len(VARIANTS)), [f"{kind}\ngradient\nvariance {noise[kind]:.2g}" for kind in VARIANTS])
