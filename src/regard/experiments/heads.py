"""One head or several at the same number of weights: quality, which heads can go, and what each looks at."""

from __future__ import annotations

from functools import partial
from typing import Any

from regard.attention.record import attention_modules
from regard.data.text import pair_corpus
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    format_values,
    is_separated,
    means,
    plot_bars,
    seed_values,
)
from regard.experiments._head_roles import ROLES, example_pairs, roles
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import TASK, data_settings
from regard.inspection.interventions import Interventions, apply_interventions
from regard.tasks._shared.teacher_forcing import loss_per_token
from regard.training.load_run import LoadedRun

CLAIM = "One attention is not enough: several heads of the same size together do better, and do different things."
WHERE = "Vaswani et al. 2017, sections 3.2.2 and 6.2, table 3 (A); Clark et al. 2019; Michel et al. 2019"
STEPS = 300
COUNTS = (1, 2, 4, 8)
MODEL = ("model=transformer", "model.layers=2", "model.dim=64", "model.ffn_dim=128")
MAX_LOSS_INCREASE = 0.02  # nats a token that may be lost by a head that can go
BLEU, LOSS, IDLE = "BLEU", "loss", "heads that can go"


def cells(effort: float) -> list[Cell]:
    """Each number of heads."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for count in COUNTS
        for cell in cells_per_seed(_name(count), seeds, partial(_measure, count, effort, steps))
    ]


def _name(count: int) -> str:
    return f"{count} head{'s' if count > 1 else ''}"


def _measure(count: int, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODEL, f"model.heads={count}"], steps=steps, seed=seed) as made:
        found: dict[str, float] = {BLEU: made.scores["bleu"], LOSS: made.scores["loss"], "weights": made.parameters}
        looks = roles(made.parts)
        for role in ROLES:
            found[f"most on {role}"] = max(shares.get(role, 0.0) for shares in looks.values())
        return found | {IDLE: _idle(made.parts, count)}


def _idle(parts: LoadedRun, count: int) -> float:
    """The share of heads without which, one at a time, the loss hardly rises."""
    task: Any = parts.task
    model: Any = parts.model
    rows = pair_corpus.encode_in_memory(example_pairs(parts), *task.vocabularies)
    measure = partial(loss_per_token, model, rows, task.special_tokens, max_length=task.config.max_length, budget=4096)
    usual, idle = measure(), 0
    every = [(name, head) for name in attention_modules(model) for head in range(count)]
    for head in every:
        with apply_interventions(model, Interventions(off=(head,))):
            idle += measure() - usual < MAX_LOSS_INCREASE
    return idle / len(every)


def verdict(figures: Figures) -> ClaimResult:
    """Some number of heads beyond one has less loss with every seed than one head with any."""
    bleu, loss, idle = (means(figures, figure) for figure in (BLEU, LOSS, IDLE))
    best, one, many = min(loss, key=lambda name: loss[name]), _name(1), _name(COUNTS[-1])
    losses = seed_values(figures, LOSS)
    looks = {role: means(figures, f"most on {role}")[many] for role in ROLES}
    return ClaimResult(
        best != one and is_separated(losses[best], losses[one]),
        f"Nats a token at the same number of weights: {format_values(loss, '.2f')}; BLEU: {format_values(bleu)}. {best} is best. Of"
        f" the model with {many}, {idle[many]:.0%} of the heads can go one at a time for less than {MAX_LOSS_INCREASE} nats, of"
        f" that with {one} {idle[one]:.0%}. The head that looks most at each gives so much of its weight to the"
        f" {format_values(looks, '.0%')}. {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """What the keenest head of each kind gives to its role, the share of heads that can go, and BLEU."""
    bleu = {name: [value / 100 for value in values] for name, values in seed_values(figures, BLEU).items()}
    named = {"BLEU / 100": bleu, IDLE: seed_values(figures, IDLE)}
    plot_bars(axes, named | {f"most on {role}": seed_values(figures, f"most on {role}") for role in ROLES}, y="share")
    axes.set_ylim(0, 1.05)
