"""Standard word lists on the vectors of a run: WordSim353 and SimLex-999 (rank correlation), Google analogies (share).

    python bench/word_lists.py RUN LISTS

LISTS has the files wordsim353.tsv, simlex999.txt and questions-words.txt of the test data of gensim. Pairs with
unknown words are left out, as gensim does. The figures are printed; those of recipes/word2vec.toml are in the notes of
docs/results.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import regard
from regard.tasks.embeddings import metrics


def pairs(path: Path) -> list[tuple[str, str, float]]:
    """Return the word pairs of a file with their ratings."""
    lines = [line.lower().split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [(a, b, float(rating)) for a, b, rating in lines]


def questions(path: Path) -> list[tuple[str, ...]]:
    """Return the analogies of a file."""
    return [tuple(line.lower().split()) for line in path.read_text().splitlines() if not line.startswith(":")]


def main(folder: Path, lists: Path) -> None:
    """Print the scores of a run."""
    run = regard.load(folder)
    space = run.task.word_space(run.model)  # type: ignore[attr-defined]
    for name in ("wordsim353.tsv", "simlex999.txt"):
        print(name, metrics.similarity(space, pairs(lists / name)))
    print("questions-words.txt", metrics.analogy(space, questions(lists / "questions-words.txt")))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
