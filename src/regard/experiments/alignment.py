"""Does attention show what a translation hangs on? Compared with the true alignment, with gradients, with removal."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from regard.attention.record import record
from regard.core.inference_mode import eval_mode
from regard.data.text import pair_sources
from regard.data.text.alignment import error_rate
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    means,
    plot_bars,
    scaled_count,
    seed_values,
)
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import MODELS, TASK, data_settings, held_out
from regard.inspection import faithfulness
from regard.inspection.collect import InspectionTarget, RunInfo
from regard.inspection.maps import to_maps
from regard.training.load_run import LoadedRun

CLAIM = "Attention shows what the model looks at: for one word of the output, the word of the input that it comes from."
WHERE = "Bahdanau et al. 2015, section 5.2.1; against it Jain and Wallace 2019, section 4"
STEPS = 350
VARIANTS = ("bahdanau", "luong", "transformer")
SENTENCES = 20  # whose gradients and removals are looked at
ERROR, DIAGONAL = "alignment error", "alignment error of the diagonal"
GRADIENT, REMOVED, ANY = "agreement with gradient × input", "answer changes without it", "without any word"


def cells(effort: float) -> list[Cell]:
    """Each model with attention."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODELS[kind]], steps=steps, seed=seed) as made:
        parts = made.parts
        error = parts.task.extra_metrics(parts.model, "valid", parts.recipe.decoding)["aer"]
        found = {ERROR: error, DIAGONAL: _diagonal(parts)}
        return found | _evidence(parts, scaled_count(effort, SENTENCES, 2))


def _diagonal(parts: LoadedRun) -> float:
    """The error of whoever aligns each word with the one at the same share of the sentence."""
    task: Any = parts.task
    truth = pair_sources.true_links(task.config.origin, "valid")
    assert truth is not None
    guesses = []
    for source, target in task.split("valid"):
        few, many = len(source.split()), len(target.split())
        guesses.append(frozenset((min(few - 1, t * few // many), t) for t in range(many)))
    return error_rate(guesses, truth)


def _evidence(parts: LoadedRun, count: int) -> dict[str, float]:
    """Two figures of the best map between the two sentences, mean of heads and sentences, and what is usual."""
    subject = InspectionTarget(parts.task, parts.model, parts.recipe.decoding, RunInfo("", ""))
    gradient, removed, usual = list[float](), list[float](), list[float]()
    for text, _ in held_out(parts)[:count]:
        with eval_mode(parts.model):
            shown = subject.inspect(text)
            with record(parts.model) as recorded:
                shown.replay()
            maps = [one for one in to_maps(recorded, shown)[1] if (one.queries, one.keys) == ("output", "source")]
            evidence = faithfulness.gather_evidence(parts.model, shown, ["source"])
        found = [faithfulness.measure_faithfulness(one, evidence, shown.answer_axis) for one in maps]
        gradient += [value for each in found if each for value in each.gradient if value is not None]
        removed += [value for each in found if each for value in each.removal if value is not None]
        usual.append(float(np.mean(evidence.removal["source"])))
    return {GRADIENT: fmean(gradient or [0.0]), REMOVED: fmean(removed or [0.0]), ANY: fmean(usual)}


def verdict(figures: Figures) -> ClaimResult:
    """Every model aligns better than the diagonal, ranks words as gradients do, and looks at words that matter."""
    error, diagonal, gradient, removed, usual = (
        means(figures, figure) for figure in (ERROR, DIAGONAL, GRADIENT, REMOVED, ANY)
    )
    fine = [kind for kind in VARIANTS if error[kind] < diagonal[kind] and gradient[kind] > 0.2]
    holds = len(fine) == len(VARIANTS) and all(removed[kind] > 1.5 * usual[kind] for kind in VARIANTS)
    told = "; ".join(
        f"{kind}: alignment error {error[kind]:.2f}, rank agreement with gradient × input {gradient[kind]:.2f}, the"
        f" answer changes in {removed[kind]:.0%} of cases without the word looked at most"
        f" ({usual[kind]:.0%} without any one)"
        for kind in VARIANTS
    )
    return ClaimResult(
        holds, f"{told}. The diagonal has an error of {fmean(diagonal.values()):.2f}. {describe_seeds(figures)}."
    )


def draw(figures: Figures, axes: Any) -> None:
    """All figures of each model."""
    plot_bars(axes, {figure: seed_values(figures, figure) for figure in (ERROR, GRADIENT, REMOVED, ANY)}, y="share")
    diagonal = fmean(means(figures, DIAGONAL).values())
    axes.axhline(diagonal, color="#555555", linestyle="--", linewidth=1)
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate("error of the diagonal", (0.99, diagonal), xytext=(0, 3), ha="right", **where)
    axes.set_ylim(0, 1.05)
