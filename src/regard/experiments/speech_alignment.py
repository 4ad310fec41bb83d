"""Speech recognition by attention over the content of a recording, and over content and the previous weights."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from regard.data.builtin import spoken_digits
from regard.data.builtin.spoken_digits import SPEAKERS
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import plot_bars
from regard.experiments._train_small import train_small
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
from regard.tasks.speech_recognition import alignment
from regard.tasks.speech_recognition.task import SpeechRecognition
from regard.training.load_run import LoadedRun

CLAIM = (
    "Attention to content alone confuses equal sounds in recordings that are longer than in training; attention that"
    " also depends on its previous weights does not."
)
REFERENCE = "Chorowski et al. 2015, sections 2.2 and 4"
STEPS = 600
CURVE = "validation word error"
RESOLUTION = 0.01  # of the digits; smaller differences do not matter
VARIANTS = {"content": "additive", "location": "location"}  # name -> score
MAX_DIGITS = 3  # of a training string; test strings have up to twice as many
NUM_STRINGS = 120  # of each test
MAX_ERROR = 40.0  # percentage of wrong digits at the training length, above which too little was learned
MIN_DIFFERENCE = 5.0  # percentage points; overlapping seeds that differ by more are inconclusive
ERROR, LONGER = "digit error", "digit error, longer strings"
ALIGNMENT, LONGER_ALIGNMENT, MONOTONIC = "alignment error", "alignment error, longer strings", "monotonic"


def cells(effort: float) -> list[Cell]:
    """Return a cell for each score, trained in the same way on strings of spoken digits."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    settings = [
        *(f"data.strings={scaled_count(effort, 3000, 8)}", f"data.digits=[1, {MAX_DIGITS}]", "data.batch_frames=6000"),
        *("data.snr=[20.0, 40.0]", "data.band_masks=1", "data.time_masks=1", "model=las", "model.preset=small"),
        *(f"model.score={VARIANTS[kind]}", "model.encoder=64", "model.dropout=0.1", "training.optimizer.lr=0.003"),
        "decoding=greedy",
    ]
    with train_small("speech_recognition", settings, steps=steps, seed=seed) as trained:
        count = scaled_count(effort, NUM_STRINGS, 4)
        return (
            _test(trained.run, (1, MAX_DIGITS), count, seed, (ERROR, ALIGNMENT, MONOTONIC))
            | _test(trained.run, (MAX_DIGITS + 1, 2 * MAX_DIGITS), count, seed, (LONGER, LONGER_ALIGNMENT, ""))
            | trained.late_gain(resolution=RESOLUTION)
        )


def _test(
    run: LoadedRun, num_digits: tuple[int, int], count: int, seed: int, names: tuple[str, str, str]
) -> dict[str, float]:
    """Return digit error, alignment error and monotonicity on test strings with this many digits."""
    task = cast(SpeechRecognition, run.task)
    strings = spoken_digits.strings_of(
        "test",
        count,
        task.config.string_settings(num_digits=num_digits),
        log_mel=task.log_mel,
        seed=seed,
        speakers=SPEAKERS,
    )
    model, decoding = cast(Any, run.model), cast(Any, run.recipe.decoding)
    scores = alignment.alignment_scores(model, strings, task.vocabulary, task.special_tokens)
    assert scores is not None
    shares = (task.score_split(model, strings, decoding)["word_error"], scores.error, scores.monotonic)
    values = tuple(100 * share for share in shares)
    return {name: value for name, value in zip(names, values, strict=True) if name}


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed of the location score has fewer errors on longer strings."""
    error, longer, aligned, longer_aligned, monotonic = (
        means(figures, figure) for figure in (ERROR, LONGER, ALIGNMENT, LONGER_ALIGNMENT, MONOTONIC)
    )
    details = "; ".join(
        f"{kind}: digit error {error[kind]:.1f} % on strings of 1 to {MAX_DIGITS} digits and {longer[kind]:.1f} % on"
        f" {MAX_DIGITS + 1} to {2 * MAX_DIGITS}, alignment error {aligned[kind]:.1f} % and"
        f" {longer_aligned[kind]:.1f} %, {monotonic[kind]:.0f} % of the steps do not move back"
        for kind in VARIANTS
    )
    text = f"{details}. {describe_seeds(figures)}."
    by_seed = seed_values(figures, LONGER)
    both = by_seed["location"], by_seed["content"]
    undecided = ""
    if max(error.values()) > MAX_ERROR:
        undecided = f"The models have learned too little, with a digit error above {MAX_ERROR:.0f} %; {MORE}."
    elif is_inconclusive(*both, MIN_DIFFERENCE):
        spread = format_range(*both, form=".0f")
        undecided = f"Seeds differ more than scores ({spread} % on longer strings); {MORE}."
    conditions = {
        "every seed of the location score has fewer errors on longer strings than every other": is_separated(*both)
    }
    effects = [difference("digit error on longer strings, location minus content, in points", *both, form="+.1f")]
    return decide(text, conditions, effects, undecided=undecided)


def draw(figures: Figures, axes: Any) -> None:
    """Plot the errors of both scores."""
    plot_bars(
        axes,
        {figure: seed_values(figures, figure) for figure in (ERROR, LONGER, ALIGNMENT, LONGER_ALIGNMENT)},
        y="percent",
    )
