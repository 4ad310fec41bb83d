"""Scores of translations by sacreBLEU, with the signatures that say how they were computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

TOKENIZERS = {"zh": "zh", "ja": "char"}  # of languages written without spaces; all others are cut by 13a


def metrics(language: str) -> dict[str, Any]:
    """A target language -> its measures: cased BLEU, lowercased BLEU, chrF."""
    tokenize = TOKENIZERS.get(language.partition("-")[0], "13a")
    # Texts are detokenised already; without `force` sacreBLEU guesses from a " ." at the end that they are not.
    plain: dict[str, Any] = {"tokenize": tokenize, "force": True}
    return {"bleu": BLEU(**plain), "bleu_lc": BLEU(lowercase=True, **plain), "chrf": CHRF()}


def scores(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> dict[str, float]:
    """Translations and references -> bleu, bleu_lc and chrf, 0 … 100."""
    measures = metrics(language)
    return {name: float(metric.corpus_score(hypotheses, [references]).score) for name, metric in measures.items()}


def signatures(language: str) -> dict[str, str]:
    """A target language -> how each score is computed, for others to repeat it."""
    measures = metrics(language)
    for metric in measures.values():
        metric.corpus_score(["."], [["."]])  # a signature names the number of references, known only after a use
    return {name: str(metric.get_signature()) for name, metric in measures.items()}
