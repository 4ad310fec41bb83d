"""Baselines of document classification: linear models over n-grams of words and of characters.

Wang and Manning 2012: a linear SVM over binary n-grams, each scaled by its log-count ratio (NB-SVM). The second
baseline is a linear SVM over TF-IDF of character n-grams, which suits Korean and short texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.core.extras import require

COSTS = (0.03, 0.1, 0.3, 1.0)  # values of C, chosen on the validation data
DEFAULT_COST = 0.1
WORDS = r"(?u)\w+|[^\w\s]"


class LabelledTexts(NamedTuple):
    """Texts and the index of the label of each."""

    texts: Sequence[str]
    labels: Sequence[int]


Predictor = Callable[[Sequence[str]], Any]  # texts -> label indices


def baseline_metrics(train: LabelledTexts, valid: LabelledTexts | None, test: LabelledTexts) -> dict[str, float]:
    """Train each baseline, choose C on the validation data, and return its accuracy on the test data."""
    fitters: Mapping[str, Callable[..., Predictor]] = {"nb_svm": fit_nb_svm, "char_svm": fit_char_svm}
    return {f"{name}.accuracy": accuracy(fit(train, valid), test) for name, fit in fitters.items()}


def accuracy(predict: Predictor, documents: LabelledTexts) -> float:
    """Return the share of documents whose predicted label is the true one."""
    return float(np.mean(np.asarray(predict(documents.texts)) == np.asarray(documents.labels)))


def fit_nb_svm(train: LabelledTexts, valid: LabelledTexts | None) -> Predictor:
    """Fit an NB-SVM over n-grams of one to three words; section 2.1 of the paper, one classifier per label."""
    text = require("sklearn.feature_extraction.text", extra="text")
    sparse = require("scipy.sparse", extra="text")
    vectorizer = text.CountVectorizer(ngram_range=(1, 3), token_pattern=WORDS, min_df=2, binary=True, dtype=np.float32)
    counts, labels = vectorizer.fit_transform(train.texts), np.asarray(train.labels)
    ratios = {int(label): _log_count_ratio(counts, labels == label) for label in np.unique(labels)}

    def features(texts: Sequence[str], label: int) -> Any:
        return vectorizer.transform(texts) @ sparse.diags(ratios[label])

    return _choose_cost(features, ratios, train, valid)


def _log_count_ratio(counts: Any, is_positive: Any) -> Any:
    """Return log((p / |p|) / (q / |q|)), with p and q the smoothed counts in documents with and without the label."""
    p, q = (1 + np.asarray(counts[mask].sum(axis=0)).ravel() for mask in (is_positive, ~is_positive))
    return np.log((p / p.sum()) / (q / q.sum())).astype(np.float32)


def fit_char_svm(train: LabelledTexts, valid: LabelledTexts | None) -> Predictor:
    """Fit a linear SVM over TF-IDF of one to five characters within words."""
    text = require("sklearn.feature_extraction.text", extra="text")
    vectorizer = text.TfidfVectorizer(
        analyzer="char_wb", ngram_range=(1, 5), min_df=2, sublinear_tf=True, max_features=500_000, dtype=np.float32
    ).fit(train.texts)
    return _choose_cost(lambda texts, _: vectorizer.transform(texts), np.unique(train.labels), train, valid)


def _choose_cost(features: Any, labels: Any, train: LabelledTexts, valid: LabelledTexts | None) -> Predictor:
    """Fit one linear SVM per label for each C -> the predictor with the highest accuracy on the validation data."""
    svm = require("sklearn.svm", extra="text")
    names = sorted(int(label) for label in labels)
    scored = names[1:] if len(names) == 2 else names  # two labels need one classifier
    inputs = {label: features(train.texts, label) for label in scored}
    true = np.asarray(train.labels)

    def fit(cost: float) -> Predictor:
        models = {label: svm.LinearSVC(C=cost).fit(inputs[label], true == label) for label in scored}

        def predict(texts: Sequence[str]) -> Any:
            margins = [models[label].decision_function(features(texts, label)) for label in scored]
            stacked = np.stack([-margins[0], margins[0]] if len(names) == 2 else margins, axis=1)
            return np.asarray(names)[stacked.argmax(axis=1)]

        return predict

    if valid is None or not len(valid.texts):
        return fit(DEFAULT_COST)
    return max((fit(cost) for cost in COSTS), key=lambda predict: accuracy(predict, valid))
