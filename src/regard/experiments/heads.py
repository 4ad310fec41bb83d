"""One against several heads with the same number of parameters: quality, prunable heads, and roles of heads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from regard.attention.record import attention_modules
from regard.data.text import pair_corpus
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._head_roles import ROLES, example_pairs, roles
from regard.experiments._plots import plot_bars
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import TASK, data_settings
from regard.experiments._verdict import (
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    format_values,
    is_separated,
    means,
    seed_values,
)
from regard.inspection.interventions import Interventions, apply_interventions
from regard.tasks._shared.teacher_forcing import loss_per_token
from regard.training.load_run import LoadedRun

if TYPE_CHECKING:
    from regard.tasks.translation.task import Translation

CLAIM = "Several heads of the same total size are better than one, and they attend to different things."
REFERENCE = "Vaswani et al. 2017, sections 3.2.2 and 6.2, table 3 (A); Clark et al. 2019; Michel et al. 2019"
STEPS = 700
CURVE = "validation loss"
LOSS_RESOLUTION = 0.01  # nats; smaller differences do not matter
COUNTS = (1, 2, 4, 8)
MODEL = ("model=transformer", "model.layers=2", "model.dim=64", "model.ffn_dim=128")
MAX_LOSS_INCREASE = 0.02  # nats per token without a prunable head
BLEU, LOSS, PRUNABLE = "BLEU", "loss", "prunable heads"


def cells(effort: float) -> list[Cell]:
    """Return a cell for each number of heads."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for count in COUNTS
        for cell in cells_per_seed(_name(count), seeds, partial(_measure, count, effort, steps))
    ]


def _name(count: int) -> str:
    return f"{count} head{'s' if count > 1 else ''}"


def _measure(count: int, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODEL, f"model.heads={count}"], steps=steps, seed=seed) as trained:
        metrics: dict[str, float] = {
            BLEU: trained.scores["bleu"],
            LOSS: trained.scores["loss"],
            "parameters": trained.parameters,
        }
        head_roles = roles(trained.run)
        for role in ROLES:
            metrics[f"max on {role}"] = max(weights.get(role, 0.0) for weights in head_roles.values())
        metrics |= trained.late_gain("loss", resolution=LOSS_RESOLUTION)
        return metrics | {PRUNABLE: _prunable_fraction(trained.run, count)}


def _prunable_fraction(run: LoadedRun, count: int) -> float:
    """Return the fraction of heads that can be removed, one at a time, with hardly any increase of the loss."""
    task = cast("Translation", run.task)
    model: Any = run.model
    corpus = pair_corpus.encode_in_memory(example_pairs(run), *task.vocabularies)
    measure = partial(
        loss_per_token, model, corpus, task.special_tokens, max_length=task.config.max_length, budget=4096
    )
    baseline, prunable = measure(), 0
    all_heads = [(name, head) for name in attention_modules(model) for head in range(count)]
    for head in all_heads:
        with apply_interventions(model, Interventions(off=(head,))):
            prunable += measure() - baseline < MAX_LOSS_INCREASE
    return prunable / len(all_heads)


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed of some number of heads above one has a lower loss than one head."""
    bleu, loss, prunable = (means(figures, figure) for figure in (BLEU, LOSS, PRUNABLE))
    best, single, most = min(loss, key=lambda name: loss[name]), _name(1), _name(COUNTS[-1])
    losses = seed_values(figures, LOSS)
    role_weights = {role: means(figures, f"max on {role}")[most] for role in ROLES}
    best_of_several = min((name for name in loss if name != single), key=lambda name: loss[name])
    conditions = {
        "every seed of the best number of heads above one has a lower loss than every seed of one head": is_separated(
            losses[best_of_several], losses[single]
        )
    }
    effects = [
        difference(
            f"nats per token, {best_of_several} minus {single}", losses[best_of_several], losses[single], form="+.3f"
        )
    ]
    return decide(
        f"Nats per token with the same number of parameters: {format_values(loss, '.2f')}; BLEU: {format_values(bleu)}."
        f" The best model has {best}. In the model with {most}, {prunable[most]:.0%} of the heads can be removed one at"
        f" a time for less than {MAX_LOSS_INCREASE} nats, in that with {single} {prunable[single]:.0%}. Largest weight"
        f" of a head with {most} on each role: {format_values(role_weights, '.0%')}. {describe_seeds(figures)}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the loss by number of heads."""
    plot_bars(axes, {LOSS: seed_values(figures, LOSS)}, y="nats per token")
