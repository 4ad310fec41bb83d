"""Image captioning with soft attention, the weighted mean of all cells, and hard attention, one sampled cell."""

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
    "Soft attention is easier to train than hard attention: its gradient is exact, whereas the gradient of a sampled"
    " choice is noisy."
)
REFERENCE = "Xu et al. 2015, section 4"
STEPS = 1200
VARIANTS = ("soft", "hard")
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
    with train_small("captioning", settings, steps=steps, seed=seed) as trained:
        return {
            BLEU: trained.scores["bleu4"],
            "pointing": trained.scores["pointing"],
            NOISE: _gradient_variance(trained.run),
            TIME: step_milliseconds(trained.run),
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
    more = f" Seeds differ more than models ({format_range(*both, form='.0f')} BLEU-4); {MORE}." if unclear else ""
    less_noise = is_separated(noise_by_seed["soft"], noise_by_seed["hard"])
    holds = None if unclear else is_separated(*both) and less_noise
    return ClaimResult(holds, f"{details}. {describe_seeds(figures)}.{more}")


def draw(figures: Figures, axes: Any) -> None:
    """Plot the quality of both, with the gradient variance below."""
    bleu = {kind: [value / 100 for value in values] for kind, values in seed_values(figures, BLEU).items()}
    fractions = {f"{BLEU} / 100": bleu, "pointing": seed_values(figures, "pointing")}
    noise = means(figures, NOISE)
    plot_bars(axes, fractions, y="fraction")
    axes.set_xticks(range(len(VARIANTS)), [f"{kind}\ngradient variance {noise[kind]:.2g}" for kind in VARIANTS])
