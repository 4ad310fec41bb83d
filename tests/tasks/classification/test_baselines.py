"""Linear baselines of document classification learn words and characters, with two labels and with three."""

from __future__ import annotations

import numpy as np
import pytest

from regard.tasks.classification.baselines import LabelledTexts, accuracy, baseline_metrics, fit_char_svm, fit_nb_svm

WORDS = {0: ("bad", "awful", "poor"), 1: ("good", "great", "fine"), 2: ("long", "slow", "endless")}


def texts(labels, seed):
    generator = np.random.default_rng(seed)
    names = [int(generator.choice(labels)) for _ in range(120)]
    return LabelledTexts([f"the film was {generator.choice(WORDS[n])} {generator.integers(99)}" for n in names], names)


@pytest.mark.parametrize("fit", [fit_nb_svm, fit_char_svm])
@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2]])
def test_words_decide(fit, labels):
    predict = fit(texts(labels, 0), texts(labels, 1))
    assert accuracy(predict, texts(labels, 2)) == 1.0


def test_both_are_reported_and_unknown_labels_count_as_wrong():
    test = texts([0, 1], 3)
    scores = baseline_metrics(texts([0, 1], 0), None, LabelledTexts(test.texts, [-1] * 60 + list(test.labels[60:])))
    assert scores == {"nb_svm.accuracy": 0.5, "char_svm.accuracy": 0.5}
