"""A model that is always given the true words in training, and its own in use: how much worse is it on its own?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from regard.core.inference_mode import eval_mode
from regard.data.text import pair_corpus
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    means,
    plot_bars,
    seed_values,
)
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import MODELS, TASK, data_settings, held_out
from regard.training.load_run import LoadedRun

CLAIM = (
    "Training and testing differ: what is foretold well from true words is foretold worse from one's own, and mistakes"
    " add up along the sentence."
)
WHERE = "Bengio et al. 2015, section 2; Ranzato et al. 2016, section 1"
STEPS = 350
VARIANTS = ("luong", "transformer")
PARTS = ("first third", "second third", "last third")
TEACHER_FORCED, FREE_RUNNING = "true words given", "on its own"
NUM_PAIRS = 300  # sentence pairs that are foretold
MIN_DIFFERENCE = 0.02  # by which the difference must grow along the sentence


def cells(effort: float) -> list[Cell]:
    """Each model, asked in both ways."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODELS[kind]], steps=steps, seed=seed) as made:
        right = {TEACHER_FORCED: dict.fromkeys(PARTS, 0.0), FREE_RUNNING: dict.fromkeys(PARTS, 0.0)}
        count = dict.fromkeys(PARTS, 0)
        for due, told in _told(made.parts):
            for part, places in zip(PARTS, np.array_split(np.arange(len(due)), 3), strict=True):
                count[part] += len(places)
                for way, tokens in told.items():
                    right[way][part] += sum(i < len(tokens) and tokens[i] == due[i] for i in places)
        shares = {f"{way}, {part}": right[way][part] / max(1, count[part]) for way in right for part in PARTS}
        whole = {f"{way}, all": sum(right[way].values()) / sum(count.values()) for way in right}
        return whole | shares


def _told(parts: LoadedRun) -> list[tuple[list[int], dict[str, list[int]]]]:
    """Of each held-out pair the true tokens, and what was said with the true words given and on its own."""
    known: Any = parts.task
    model: Any = parts.model
    rows = pair_corpus.encode_in_memory(held_out(parts)[:NUM_PAIRS], *known.vocabularies)
    batch = rows.batch(np.arange(rows.num_pairs), known.special_tokens)
    with eval_mode(model):
        target: Tensor = batch.target.tokens
        logits, _ = model(target[:, :-1], model.start(batch.source))
        given = logits.argmax(dim=-1).tolist()
        search, limits = parts.recipe.decoding, known.limits(batch.source.lengths)
        assert search is not None
        own = search(model, model.start(batch.source), special_tokens=known.special_tokens, limits=limits)
    found = []
    for number, length in enumerate((batch.target.lengths - 1).tolist()):
        due = target[number, 1 : length + 1].tolist()
        found.append(
            (
                due,
                {
                    TEACHER_FORCED: given[number][:length],
                    FREE_RUNNING: [*own[number][0].tokens, known.special_tokens.eos],
                },
            )
        )
    return found


def verdict(figures: Figures) -> ClaimResult:
    """Less is right on its own, and the difference grows along the sentence."""
    whole = {way: means(figures, f"{way}, all") for way in (TEACHER_FORCED, FREE_RUNNING)}
    gaps = {
        kind: [
            means(figures, f"{TEACHER_FORCED}, {part}")[kind] - means(figures, f"{FREE_RUNNING}, {part}")[kind]
            for part in PARTS
        ]
        for kind in VARIANTS
    }
    holds = all(
        gap[-1] > gap[0] + MIN_DIFFERENCE and whole[TEACHER_FORCED][kind] > whole[FREE_RUNNING][kind]
        for kind, gap in gaps.items()
    )
    told = "; ".join(
        f"{kind} {whole[TEACHER_FORCED][kind]:.0%} with the true words given, {whole[FREE_RUNNING][kind]:.0%} on its own, the"
        f" difference {100 * gap[0]:.0f} points in the first third of a sentence and {100 * gap[-1]:.0f} in the last"
        for kind, gap in gaps.items()
    )
    return ClaimResult(holds, f"Tokens that are right at their place: {told}. {describe_seeds(figures)}.")


def draw(figures: Figures, axes: Any) -> None:
    """Shares that are right, by the third of the sentence."""
    named = {
        f"{kind}, {way}": {part: seed_values(figures, f"{way}, {part}")[kind] for part in PARTS}
        for kind in VARIANTS
        for way in (TEACHER_FORCED, FREE_RUNNING)
    }
    plot_bars(axes, named, y="tokens right at their place")
    axes.set_ylim(0, 1.05)
