"""Compare attention in translation with the true alignment, with gradients, and with the effect of removing words."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regard.attention.record import record
from regard.core.inference_mode import eval_mode
from regard.data.text import pair_sources
from regard.data.text.alignment import error_rate
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import draw_baseline, plot_bars
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import BLEU_RESOLUTION, MODELS, TASK, data_settings, held_out
from regard.experiments._verdict import (
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    means,
    ratio,
    seed_values,
)
from regard.inspection import faithfulness
from regard.inspection.collect import InspectionTarget, RunInfo
from regard.inspection.maps import to_maps
from regard.training.load_run import LoadedRun

if TYPE_CHECKING:
    from regard.tasks.translation.task import Translation

CLAIM = "Attention weights show which input word the model uses for an output word."
REFERENCE = "Bahdanau et al. 2015, section 5.2.1; against it Jain and Wallace 2019, section 4"
STEPS = 700
CURVE = "validation BLEU"
VARIANTS = ("bahdanau", "luong", "transformer")
SENTENCES = 10  # for gradients and removals
MIN_AGREEMENT, MIN_REMOVAL_RATIO = 0.2, 1.5
ERROR, DIAGONAL = "alignment error", "alignment error of the diagonal"
GRADIENT = "agreement with gradient × input"
REMOVED, ANY = "change without the most attended word", "change without a word, mean"


def cells(effort: float) -> list[Cell]:
    """Return a cell for each model with attention."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODELS[kind]], steps=steps, seed=seed) as trained:
        run = trained.run
        error = run.task.extra_metrics(run.model, "valid", run.recipe.decoding)["aer"]
        metrics = {ERROR: error, DIAGONAL: _diagonal_error(run), **trained.late_gain(resolution=BLEU_RESOLUTION)}
        return metrics | _faithfulness(run, scaled_count(effort, SENTENCES, 2))


def _diagonal_error(run: LoadedRun) -> float:
    """Return the error of aligning each word with the one at the same relative position."""
    task = cast("Translation", run.task)
    truth = pair_sources.true_links(task.config.data_source, "valid")
    assert truth is not None
    guesses = []
    for source, target in task.split("valid"):
        source_length, target_length = len(source.split()), len(target.split())
        guesses.append(
            frozenset((min(source_length - 1, t * source_length // target_length), t) for t in range(target_length))
        )
    return error_rate(guesses, truth)


def _faithfulness(run: LoadedRun, count: int) -> dict[str, float]:
    """Return the faithfulness metrics of the maps from output to source, averaged over heads and sentences."""
    target = InspectionTarget(run.task, run.model, run.recipe.decoding, RunInfo("", ""))
    gradient, removed, baseline = list[float](), list[float](), list[float]()
    for text, _ in held_out(run)[:count]:
        with eval_mode(run.model):
            inspectable = target.inspect(text)
            with record(run.model) as recorded:
                inspectable.replay()
            maps = [
                attention_map
                for attention_map in to_maps(recorded, inspectable)[1]
                if (attention_map.queries, attention_map.keys) == ("output", "source")
            ]
            evidence = faithfulness.gather_evidence(run.model, inspectable, ["source"])
        results = [
            faithfulness.measure_faithfulness(attention_map, evidence, inspectable.answer_axis)
            for attention_map in maps
        ]
        gradient += [value for result in results if result for value in result.gradient if value is not None]
        removed += [value for result in results if result for value in result.removal if value is not None]
        baseline.append(float(np.mean(evidence.removal["source"])))
    return {GRADIENT: fmean(gradient or [0.0]), REMOVED: fmean(removed or [0.0]), ANY: fmean(baseline)}


def verdict(figures: Figures) -> ClaimResult:
    """Check that every model aligns better than the diagonal, agrees with gradients, and attends to relevant words."""
    error, diagonal, gradient, removed, baseline = (
        means(figures, figure) for figure in (ERROR, DIAGONAL, GRADIENT, REMOVED, ANY)
    )
    details = "; ".join(
        f"{kind}: alignment error {error[kind]:.2f}, rank agreement with gradient × input {gradient[kind]:.2f}, the"
        f" output changes in {removed[kind]:.0%} of cases without the most attended word"
        f" ({baseline[kind]:.0%} without an average word)"
        for kind in VARIANTS
    )
    by_seed = {figure: seed_values(figures, figure) for figure in (ERROR, DIAGONAL, REMOVED, ANY)}
    conditions = {
        "every model has a lower alignment error than the diagonal": all(
            error[kind] < diagonal[kind] for kind in VARIANTS
        ),
        f"every rank agreement is above {MIN_AGREEMENT}": all(gradient[kind] > MIN_AGREEMENT for kind in VARIANTS),
        f"removing the most attended word changes the output {MIN_REMOVAL_RATIO} times as often as removing an average"
        " word": all(removed[kind] > MIN_REMOVAL_RATIO * baseline[kind] for kind in VARIANTS),
    }
    effects = [
        *(
            difference(f"alignment error below the diagonal, {kind}", by_seed[DIAGONAL][kind], by_seed[ERROR][kind])
            for kind in VARIANTS
        ),
        *(
            ratio(
                f"changes by the most attended word relative to an average word, {kind}",
                by_seed[REMOVED][kind],
                by_seed[ANY][kind],
            )
            for kind in VARIANTS
        ),
    ]
    text = f"{details}. The diagonal has an error of {fmean(diagonal.values()):.2f}. {describe_seeds(figures)}."
    return decide(text, conditions, effects)


def draw(figures: Figures, axes: Any) -> None:
    """Plot all figures of each model."""
    plot_bars(axes, {figure: seed_values(figures, figure) for figure in (ERROR, GRADIENT, REMOVED, ANY)}, y="fraction")
    diagonal = fmean(means(figures, DIAGONAL).values())
    draw_baseline(axes, diagonal, "error of\nthe diagonal")
    axes.set_ylim(0, 1.05)
