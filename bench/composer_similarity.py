"""Test with a classifier whether samples conditioned on a composer resemble that composer.

    python bench/composer_similarity.py RUN [--each 12] [--seconds 30]

RUN was trained with data.conditions=["composer"].

Excerpts are described by simple features (pitches, loudness, density, durations, intervals, pitch classes). A logistic
regression (scikit-learn) learns the composer from excerpts of the training performances and is evaluated on those of
the validation and test splits. It then classifies samples of the run, with each composer as condition and without a
condition. Figures are written to docs/music.json and docs/results.md.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import results_page
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import regard
from regard.data.music.notes import Note

COMPOSERS = 4  # those with the most training performances
FEWEST = 16  # notes of an excerpt
LEAP = 13  # semitones, from which on steps are counted together


def describe(notes: Sequence[Note]) -> NDArray[np.float64]:
    """An excerpt -> numbers that do not depend on its length."""
    notes = sorted(notes)
    start, end, pitch, loud = (np.array([note[column] for note in notes], dtype=float) for column in range(4))
    waits, steps = np.diff(start), np.clip(np.abs(np.diff(pitch)), 0, LEAP)
    rate = len(notes) / max(1e-3, end.max() - start.min())
    together = (end - start).sum() / max(1e-3, end.max() - start.min())
    classes = np.sort(np.bincount(pitch.astype(int) % 12, minlength=12) / len(notes))  # whatever the key
    moments = [part(values) for values in (pitch, loud, np.log(end - start + 0.01)) for part in (np.mean, np.std)]
    quick = [(waits < 0.03).mean(), np.log(waits[waits >= 0.03].mean() + 0.01) if (waits >= 0.03).any() else 0.0]
    leaps = np.bincount(steps.astype(int), minlength=LEAP + 1) / max(1, len(steps))
    return np.array([rate, together, *moments, *quick, *leaps, *classes])


def excerpts(notes: Sequence[Note], seconds: float) -> list[NDArray[np.float64]]:
    """Split a piece into excerpts of this many seconds and describe each; excerpts with few notes are skipped."""
    parts: dict[int, list[Note]] = {}
    for note in notes:
        parts.setdefault(int(note.start // seconds), []).append(note)
    return [describe(part) for part in parts.values() if len(part) >= FEWEST]


def gather(task: Any, splits: Sequence[str], composers: Sequence[str], seconds: float) -> tuple[list[Any], list[str]]:
    """Return the described excerpts of the composers' pieces, and the composer of each."""
    rows, labels = [], []
    for piece in (piece for split in splits for piece in task.split(split) if piece.composer in composers):
        pieces_excerpts = excerpts(task.encoding.notes(piece.content), seconds)
        rows += pieces_excerpts
        labels += [piece.composer] * len(pieces_excerpts)
    return rows, labels


def taken_for(judge: Pipeline, pieces: Sequence[Any], seconds: float) -> dict[str, float]:
    """Samples -> which share of their excerpts is taken for each composer."""
    rows = [row for piece in pieces for row in excerpts(piece.notes, seconds)]
    counts = Counter(judge.predict(rows).tolist()) if rows else Counter()
    return {name: counts[name] / max(1, len(rows)) for name in judge.classes_.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--each", type=int, default=12, help="samples of each composer")
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    run = regard.load(args.run)
    counts = Counter(piece.composer for piece in run.task.split("train"))
    composers = [name for name, _ in counts.most_common(COMPOSERS)]
    rows, labels = gather(run.task, ["train"], composers, args.seconds)
    judge = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, class_weight="balanced"))
    judge.fit(rows, labels)
    unseen, truth = gather(run.task, ["valid", "test"], composers, args.seconds)
    results: dict[str, Any] = {"accuracy": float(judge.score(unseen, truth)), "excerpts": len(unseen)}
    results |= {"seconds": args.seconds, "each": args.each, "taken": {}}
    for name in [*composers, ""]:
        pieces = [
            run.generate(condition=[name] if name else [], seconds=args.seconds, seed=seed)[0]
            for seed in range(1, args.each + 1)
        ]
        results["taken"][name or "none"] = taken_for(judge, pieces, args.seconds)
        print(name or "none", results["taken"][name or "none"], flush=True)
    results_page.store(results_page.MUSIC, results_page.stored(results_page.MUSIC) | {"likeness": results})
    print(results_page.likeness(results))


if __name__ == "__main__":
    main()
