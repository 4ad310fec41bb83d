"""Exposure bias: accuracy with teacher forcing against accuracy in free-running generation."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor

from regard.core.inference_mode import eval_mode
from regard.data.text import pair_corpus
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._plots import plot_bars
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import BLEU_RESOLUTION, MODELS, TASK, data_settings, held_out
from regard.experiments._verdict import (
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    is_separated,
    means,
    seed_values,
)
from regard.training.load_run import LoadedRun

if TYPE_CHECKING:
    from regard.tasks.translation.task import Translation

CLAIM = (
    "Training and testing differ: predictions from the model's own output are worse than from the true words, and"
    " errors accumulate along the sentence."
)
REFERENCE = "Bengio et al. 2015, section 2; Ranzato et al. 2016, section 1"
STEPS = 700
CURVE = "validation BLEU"
VARIANTS = ("luong", "transformer")
PARTS = ("first third", "second third", "last third")
TEACHER_FORCED, FREE_RUNNING = "teacher forcing", "free running"
NUM_PAIRS = 300  # sentence pairs that are predicted


def cells(effort: float) -> list[Cell]:
    """Return a cell for each model; each is decoded in both modes."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODELS[kind]], steps=steps, seed=seed) as trained:
        correct = {TEACHER_FORCED: dict.fromkeys(PARTS, 0.0), FREE_RUNNING: dict.fromkeys(PARTS, 0.0)}
        count = dict.fromkeys(PARTS, 0)
        for expected, predictions in _predict(trained.run):
            for part, positions in zip(PARTS, np.array_split(np.arange(len(expected)), 3), strict=True):
                count[part] += len(positions)
                for mode, tokens in predictions.items():
                    correct[mode][part] += sum(i < len(tokens) and tokens[i] == expected[i] for i in positions)
        by_part = {f"{mode}, {part}": correct[mode][part] / max(1, count[part]) for mode in correct for part in PARTS}
        total = {f"{mode}, all": sum(correct[mode].values()) / sum(count.values()) for mode in correct}
        return total | by_part | trained.late_gain(resolution=BLEU_RESOLUTION)


def _predict(run: LoadedRun) -> list[tuple[list[int], dict[str, list[int]]]]:
    """Return the true tokens of each held-out pair, and the predicted tokens by mode."""
    task = cast("Translation", run.task)
    model: Any = run.model
    corpus = pair_corpus.encode_in_memory(held_out(run)[:NUM_PAIRS], *task.vocabularies)
    batch = corpus.batch(np.arange(corpus.num_pairs), task.special_tokens)
    with eval_mode(model):
        target: Tensor = batch.target.tokens
        logits, _ = model(target[:, :-1], model.start(batch.source))
        forced = logits.argmax(dim=-1).tolist()
        search, limits = run.recipe.decoding, task.max_output_lengths(batch.source.lengths)
        assert search is not None
        hypotheses = search(model, model.start(batch.source), special_tokens=task.special_tokens, limits=limits)
    results = []
    for index, length in enumerate((batch.target.lengths - 1).tolist()):
        expected = target[index, 1 : length + 1].tolist()
        free = [*hypotheses[index][0].tokens, task.special_tokens.eos]
        results.append((expected, {TEACHER_FORCED: forced[index][:length], FREE_RUNNING: free}))
    return results


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed loses accuracy in free-running generation, more in the last third than in the first."""
    total = {mode: means(figures, f"{mode}, all") for mode in (TEACHER_FORCED, FREE_RUNNING)}
    losses = {part: _losses(figures, part) for part in ("all", *PARTS)}
    conditions = {
        "every seed has a higher accuracy with teacher forcing than in free-running generation": all(
            min(losses["all"][kind]) > 0 for kind in VARIANTS
        ),
        "every seed loses more in the last third of a sentence than any seed in the first third": all(
            is_separated(losses[PARTS[0]][kind], losses[PARTS[-1]][kind]) for kind in VARIANTS
        ),
    }
    effects = [
        difference(
            f"accuracy lost without teacher forcing, {part}, {kind}",
            *(seed_values(figures, f"{mode}, {part}")[kind] for mode in (TEACHER_FORCED, FREE_RUNNING)),
            form="+.1%",
        )
        for kind in VARIANTS
        for part in (PARTS[0], PARTS[-1])
    ]
    details = "; ".join(
        f"{kind} {total[TEACHER_FORCED][kind]:.0%} with teacher forcing, {total[FREE_RUNNING][kind]:.0%} free running,"
        f" a difference of {100 * fmean(losses[PARTS[0]][kind]):.1f} points in the first third of a sentence and"
        f" {100 * fmean(losses[PARTS[-1]][kind]):.1f} in the last"
        for kind in VARIANTS
    )
    return decide(f"Correct tokens by position: {details}. {describe_seeds(figures)}.", conditions, effects)


def _losses(figures: Figures, part: str) -> dict[str, list[float]]:
    """Return the accuracy that each seed of each model loses without teacher forcing in a part of the sentences."""
    forced, free = (seed_values(figures, f"{mode}, {part}") for mode in (TEACHER_FORCED, FREE_RUNNING))
    return {kind: [a - b for a, b in zip(forced[kind], free[kind], strict=True)] for kind in VARIANTS}


def draw(figures: Figures, axes: Any) -> None:
    """Plot the accuracy by third of the sentence."""
    bars = {
        f"{kind}, {mode}": {part: seed_values(figures, f"{mode}, {part}")[kind] for part in PARTS}
        for kind in VARIANTS
        for mode in (TEACHER_FORCED, FREE_RUNNING)
    }
    plot_bars(axes, bars, y="correct tokens, fraction")
    axes.set_ylim(0, 1.05)
