"""Test with classifiers whether samples conditioned on a composer resemble that composer.

    python bench/composer_similarity.py RUN [--guidance 1 2] [--each 12] [--seconds 30]

RUN was trained with data.conditions=["composer"].

Excerpts are described by simple features (pitches, loudness, density, durations, intervals, pitch classes). A logistic
regression (scikit-learn) learns the composer from excerpts of the training performances and is evaluated on those of
the validation and test splits. It then classifies samples of the run, with each composer as condition and without a
condition. There are two such judges: one of all features, one without those that depend on the lengths of notes. A
model that forgets to end notes has lengths that no performance has, and these decide the judge of all features. The
deviations show such features: the mean of samples, in standard deviations of real excerpts. Figures are written to
docs/music.json and docs/results.md.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import results_page
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import regard
from regard.data.music.notes import Note

COMPOSERS = 4  # those with the most training performances
FEWEST = 16  # notes of an excerpt
LEAP = 13  # semitones, from which on steps are counted together
LENGTH_FEATURES = ("notes per second", "sounding together", "mean log length", "spread of log lengths")
JUDGES: dict[str, tuple[str, ...]] = {"all features": (), "without note lengths": LENGTH_FEATURES}  # without these
NUM_DEVIATIONS = 3  # features whose deviation is printed

Features = dict[str, float]  # by name


class Judge(NamedTuple):
    """A classifier of excerpts by some of their features."""

    classifier: Pipeline
    names: tuple[str, ...]  # of the features

    def predict(self, rows: Sequence[Features]) -> list[str]:
        """Return the predicted composer of each excerpt."""
        predicted: list[str] = self.classifier.predict(matrix(rows, self.names)).tolist() if rows else []
        return predicted

    def score(self, rows: Sequence[Features], composers: Sequence[str]) -> dict[str, float]:
        """Return the share of excerpts whose composer is recognized, and its mean over the composers: samples have
        equally many of each composer, but real excerpts do not."""
        predicted = self.predict(rows)
        return {
            "accuracy": float(accuracy_score(composers, predicted)),
            "balanced_accuracy": float(balanced_accuracy_score(composers, predicted)),
        }


def describe(notes: Sequence[Note]) -> Features:
    """An excerpt -> numbers that do not depend on its length. Only LENGTH_FEATURES depend on the ends of notes."""
    notes = sorted(notes)
    start, end, pitch, loud = (np.array([note[column] for note in notes], dtype=float) for column in range(4))
    waits, steps = np.diff(start), np.clip(np.abs(np.diff(pitch)), 0, LEAP)
    log_lengths, seconds = np.log(end - start + 0.01), max(1e-3, end.max() - start.min())
    leaps = np.bincount(steps.astype(int), minlength=LEAP + 1) / max(1, len(steps))
    classes = np.sort(np.bincount(pitch.astype(int) % 12, minlength=12) / len(notes))  # whatever the key
    lengths = (len(notes) / seconds, (end - start).sum() / seconds, log_lengths.mean(), log_lengths.std())
    features = dict(zip(LENGTH_FEATURES, lengths, strict=True)) | {
        "onsets per second": len(notes) / max(1e-3, start.max() - start.min()),
        "mean pitch": pitch.mean(),
        "spread of pitches": pitch.std(),
        "mean velocity": loud.mean(),
        "spread of velocities": loud.std(),
        "share of chords": (waits < 0.03).mean(),
        "mean log wait": np.log(waits[waits >= 0.03].mean() + 0.01) if (waits >= 0.03).any() else 0.0,
    }
    features |= {f"steps of {size} semitones": share for size, share in enumerate(leaps)}
    features |= {f"share of pitch class {rank}": share for rank, share in enumerate(classes)}
    return {name: float(value) for name, value in features.items()}


def matrix(rows: Sequence[Features], names: Sequence[str]) -> NDArray[np.float64]:
    """Return the named features of excerpts (n f)."""
    return np.array([[row[name] for name in names] for row in rows], dtype=float)


def excerpts(notes: Sequence[Note], seconds: float) -> list[Features]:
    """Split a piece into excerpts of this many seconds and describe each; excerpts with few notes are skipped."""
    parts: dict[int, list[Note]] = {}
    for note in notes:
        parts.setdefault(int(note.start // seconds), []).append(note)
    return [describe(part) for part in parts.values() if len(part) >= FEWEST]


def gather(
    task: Any, splits: Sequence[str], composers: Sequence[str], seconds: float
) -> tuple[list[Features], list[str]]:
    """Return the described excerpts of the composers' pieces, and the composer of each."""
    rows, labels = [], []
    for piece in (piece for split in splits for piece in task.split(split) if piece.composer in composers):
        pieces_excerpts = excerpts(task.encoding.notes(piece.content), seconds)
        rows += pieces_excerpts
        labels += [piece.composer] * len(pieces_excerpts)
    return rows, labels


def train_judges(rows: Sequence[Features], composers: Sequence[str]) -> dict[str, Judge]:
    """Train the judge of each name on described excerpts."""
    judges = {}
    for judge, excluded in JUDGES.items():
        names = tuple(name for name in rows[0] if name not in excluded)
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, class_weight="balanced"))
        judges[judge] = Judge(classifier.fit(matrix(rows, names), composers), names)
    return judges


def measure(judge: Judge, samples: dict[str, list[Features]], composers: Sequence[str]) -> dict[str, Any]:
    """Excerpts of samples by their condition -> the shares of the predicted composers, and how many are correct."""
    counts = {condition: Counter(judge.predict(rows)) for condition, rows in samples.items()}
    return {
        "taken": {
            condition or "none": {name: count[name] / max(1, count.total()) for name in composers}
            for condition, count in counts.items()
        },
        "correct": sum(counts[name][name] for name in composers),
        "samples": sum(counts[name].total() for name in composers),
    }


def deviations(samples: Sequence[Features], real: Sequence[Features]) -> dict[str, float]:
    """Return the features whose mean in samples is farthest from real excerpts, in their standard deviations."""
    names = tuple(real[0])
    expected = matrix(real, names)
    shift = (matrix(samples, names).mean(axis=0) - expected.mean(axis=0)) / np.maximum(expected.std(axis=0), 1e-9)
    return {names[index]: float(shift[index]) for index in np.argsort(-np.abs(shift))[:NUM_DEVIATIONS]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--guidance", type=float, nargs="+", default=[1.0, 2.0])
    parser.add_argument("--each", type=int, default=12, help="samples of each composer")
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    run = regard.load(args.run)
    counts = Counter(piece.composer for piece in run.task.split("train"))
    composers = sorted(name for name, _ in counts.most_common(COMPOSERS))
    judges = train_judges(*gather(run.task, ["train"], composers, args.seconds))
    real, truth = gather(run.task, ["valid", "test"], composers, args.seconds)
    results: dict[str, Any] = {
        "run": args.run.name,
        "excerpts": len(real),
        "seconds": args.seconds,
        "each": args.each,
        "real": {name: judge.score(real, truth) for name, judge in judges.items()},
        "guidance": {},
    }
    for guidance in args.guidance:
        samples: dict[str, list[Features]] = {}
        for name in [*composers, ""] if guidance == 1 else composers:
            wishes = {"condition": [name], "guidance": guidance} if name else {}
            pieces = [run.generate(seconds=args.seconds, seed=seed, **wishes)[0] for seed in range(1, args.each + 1)]
            samples[name] = [row for piece in pieces for row in excerpts(piece.notes, args.seconds)]
        results["guidance"][f"{guidance:g}"] = {
            "judges": {name: measure(judge, samples, composers) for name, judge in judges.items()},
            "deviations": deviations([row for rows in samples.values() for row in rows], real),
        }
        print(results["guidance"][f"{guidance:g}"], flush=True)
    results_page.store(results_page.MUSIC, results_page.stored(results_page.MUSIC) | {"likeness": results})
    print(results_page.likeness(results))


if __name__ == "__main__":
    main()
