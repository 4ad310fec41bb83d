"""Scores of translations by sacreBLEU, with the signatures that say how they were computed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import _TOKENIZERS, BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.core.errors import ConfigError, DataError, MissingExtra, nearest
from regard.data.reading import lines

TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char"}  # of languages whose words are not parted by spaces alone
MORPHEMES = {
    "ko-mecab": ("mecab_ko", "ko"),
    "ja-mecab": ("MeCab", "ja"),
}  # the package each needs, and sacreBLEU's extra


def tokenizer(language: str, asked: str = "") -> str:
    """The target language -> what cuts its texts for BLEU: as asked for, or else the language's own.

    Korean is cut into morphemes by ko-mecab where that is installed (as sacreBLEU recommends), else into characters:
    between spaces stand whole phrases, of which 13a, which is for European languages, would count few.
    """
    if asked:
        if asked not in _TOKENIZERS:
            raise ConfigError(f"bleu={asked!r} is no tokenizer of sacreBLEU; {nearest(asked, _TOKENIZERS)}")
        package, extra = MORPHEMES.get(asked, (None, ""))
        if package is not None and find_spec(package) is None:
            raise MissingExtra(f"bleu={asked} needs {package}, not installed; run: pip install 'sacrebleu[{extra}]'")
        return asked
    plain = language.partition("-")[0].partition("_")[0].lower()
    return "ko-mecab" if plain == "ko" and find_spec("mecab_ko") else TOKENIZERS.get(plain, "13a")


def metrics(tokenize: str) -> dict[str, Any]:
    """What cuts texts -> the measures: cased BLEU, lowercased BLEU, chrF."""
    # Texts are detokenised already; without `force` sacreBLEU guesses from a " ." at the end that they are not.
    plain: dict[str, Any] = {"tokenize": tokenize, "force": True}
    return {"bleu": BLEU(**plain), "bleu_lc": BLEU(lowercase=True, **plain), "chrf": CHRF()}


def scores(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str) -> dict[str, float]:
    """Translations and references -> bleu, bleu_lc and chrf, 0 … 100."""
    measures = metrics(tokenize)
    return {name: float(metric.corpus_score(hypotheses, [references]).score) for name, metric in measures.items()}


def scores_of(path: Path, pairs: Sequence[tuple[str, str]], *, tokenize: str) -> dict[str, float]:
    """A file of translations made elsewhere, one a line, and the pairs they belong to -> their scores."""
    given = list(lines(path))
    if len(given) != len(pairs):
        raise DataError(
            f"{path}: {len(given)} lines, but there are {len(pairs)} texts; a line is the translation of each"
        )
    return scores(given, [target for _, target in pairs], tokenize=tokenize)


def signatures(tokenize: str) -> dict[str, str]:
    """What cuts texts -> how each score is computed, for others to repeat it."""
    measures = metrics(tokenize)
    for metric in measures.values():
        metric.corpus_score(["."], [["."]])  # a signature names the number of references, known only after a use
    return {name: str(metric.get_signature()) for name, metric in measures.items()}
