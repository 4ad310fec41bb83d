"""Baseline of tagging: a linear-chain CRF with hand-made features of the unit and its neighbors, by python-crfsuite.

Lafferty et al. 2001; the features are those of the usual entity taggers: the unit, its shape, prefixes and suffixes,
and n-grams of neighboring units, which are characters in Korean data.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.core.extras import require
from regard.data.text.tagged_files import Sentence
from regard.tasks.tagging import metrics

ITERATIONS = 100
PENALTIES = {"c1": 0.05, "c2": 0.01}  # weights of the L1 and the L2 penalty
WINDOW = (-3, -2, -1, 0, 1, 2, 3)  # units around the current one
NGRAMS = ((-2, -1), (-1, 0), (0, 1), (1, 2), (-2, -1, 0), (-1, 0, 1), (0, 1, 2))
SHAPES = (
    (re.compile(r"[A-Z]"), "X"),
    (re.compile(r"[a-z]"), "x"),
    (re.compile(r"\d"), "0"),
    (re.compile(r"[가-힣]"), "가"),
)


def baseline_metrics(train: Iterable[Sentence], test: Sequence[Sentence]) -> dict[str, float]:
    """Train a CRF and return the metrics of its predictions."""
    scores = metrics.compute_metrics([sentence.tags for sentence in test], predict_tags(train, test))
    return {f"crf.{name}": value for name, value in scores.items()}


def predict_tags(train: Iterable[Sentence], test: Sequence[Sentence]) -> list[list[str]]:
    """Train a CRF on tagged sentences -> the most likely tags of other sentences."""
    crfsuite = require("pycrfsuite", extra="text")
    trainer = crfsuite.Trainer(verbose=False)
    for sentence in train:
        trainer.append(list(features(sentence)), list(sentence.tags))
    trainer.set_params({**PENALTIES, "max_iterations": ITERATIONS, "feature.possible_transitions": True})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "crf")
        trainer.train(path)
        tagger = crfsuite.Tagger()
        tagger.open(path)
        return [list(tagger.tag(list(features(sentence)))) for sentence in test]


def features(sentence: Sentence) -> Iterator[list[str]]:
    """Yield the features of each unit of a sentence."""
    units = [sentence.text[start:stop] for start, stop in sentence.units]

    def unit(index: int) -> str:
        return units[index].lower() if 0 <= index < len(units) else "<edge>"

    for i, text in enumerate(units):
        yield [
            "bias",
            f"shape={shape(text)}",
            *(f"{offset}={unit(i + offset)}" for offset in WINDOW),
            *(f"{pattern}={'|'.join(unit(i + offset) for offset in pattern)}" for pattern in NGRAMS),
            *(f"shape{offset}={shape(units[i + offset])}" for offset in (-1, 1) if 0 <= i + offset < len(units)),
            *(f"prefix={text[:n].lower()}" for n in (1, 2, 3) if len(text) > n),
            *(f"suffix={text[-n:].lower()}" for n in (1, 2, 3) if len(text) > n),
        ]


def shape(text: str) -> str:
    """Return the shape of a unit: "Xxx" for "Tom", with repeated characters shortened to two."""
    for pattern, character in SHAPES:
        text = pattern.sub(character, text)
    return re.sub(r"(.)\1{2,}", r"\1\1", text)
