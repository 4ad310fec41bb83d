"""Error rates of transcripts: words, characters and complete transcripts, computed by jiwer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from regard.core.example_statistics import is_collecting, record_mean
from regard.core.extras import require

PUNCTUATION = re.compile(r"[^\w\s']|_")


def normalize_transcript(text: str) -> str:
    """Lowercase a text, remove its punctuation, and join its words by single spaces."""
    return " ".join(PUNCTUATION.sub(" ", text.lower()).split())


def error_rates(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Transcripts and references -> `word_error`, `character_error` and `exact`, shares of 1.

    An error rate is the number of substitutions, deletions and insertions divided by the length of the references.
    """
    jiwer: Any = require("jiwer", extra="speech")
    pairs = [
        (reference, hypothesis)
        for reference, hypothesis in zip(
            map(normalize_transcript, references), map(normalize_transcript, hypotheses), strict=True
        )
        if reference  # nothing but punctuation
    ]
    if not pairs:
        return {"word_error": 0.0, "character_error": 0.0, "exact": 1.0}
    expected, actual = (list(texts) for texts in zip(*pairs, strict=True))
    if is_collecting():
        _record_errors("word_error", [jiwer.process_words(*pair) for pair in pairs])
        _record_errors("character_error", [jiwer.process_characters(*pair) for pair in pairs])
        record_mean("exact", [reference == hypothesis for reference, hypothesis in pairs])
    return {
        "word_error": float(jiwer.wer(expected, actual)),
        "character_error": float(jiwer.cer(expected, actual)),
        "exact": sum(reference == hypothesis for reference, hypothesis in pairs) / len(pairs),
    }


def _record_errors(metric: str, alignments: Sequence[Any]) -> None:
    """Record the errors of each transcript and the length of its reference."""
    record_mean(
        metric,
        [aligned.substitutions + aligned.deletions + aligned.insertions for aligned in alignments],
        weights=[aligned.hits + aligned.substitutions + aligned.deletions for aligned in alignments],
    )


def signatures() -> dict[str, str]:
    """Return how each metric is computed."""
    version = require("jiwer", extra="speech").__name__
    words = "lowercased, without punctuation"
    return {
        "word_error": f"word error rate by {version}, {words}; a word of the built-in data is a digit",
        "character_error": f"character error rate by {version}, {words}",
        "exact": f"share of transcripts without an error, {words}",
    }
