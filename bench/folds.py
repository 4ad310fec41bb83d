"""Ten-fold cross-validation of recipes/movie_reviews.toml: each fold once for testing, the one before for validation.

    python bench/folds.py OUT

Every fold is trained into OUT/foldN. Accuracies are stored in docs/folds.json after every fold, so that an interrupted
command can continue. They are listed in docs/results_notes.md.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import results_page

import regard

RECIPE = "movie_reviews"
FOLDS = 10
FIGURES = results_page.ROOT / "docs" / "folds.json"


def accuracy(fold: int, out: Path) -> float:
    """Train with the fold held out -> the accuracy on it."""
    settings = {"data.valid": f"cv{(fold - 1) % FOLDS}*", "data.test": f"cv{fold}*"}
    run = regard.train("classification", settings, recipe=RECIPE, out=out / f"fold{fold}", quiet=True)
    return run.evaluate("test")["accuracy"]


def main(out: Path) -> None:
    """Measure the folds that are missing and print mean and standard deviation."""
    for fold in map(str, range(FOLDS)):
        figures = results_page.stored(FIGURES)
        if fold not in figures:
            results_page.store(FIGURES, figures | {fold: accuracy(int(fold), out)})
        print(fold, results_page.stored(FIGURES)[fold], flush=True)
    values = list(results_page.stored(FIGURES).values())
    print(f"mean {statistics.mean(values):.4f}, standard deviation {statistics.stdev(values):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
