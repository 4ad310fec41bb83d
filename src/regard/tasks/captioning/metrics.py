"""Caption metrics against all references of an image: BLEU-1 … 4, chrF, CIDEr, METEOR, exact match.

BLEU, CIDEr and METEOR are computed on lowercased words without punctuation; words in Hangul, Han or Kana are split into
characters, as for translations into Korean. BLEU is that of sacreBLEU, CIDEr that of the COCO evaluation
(`pycocoevalcap`), METEOR that of `nltk` with exact and stem matches. Synonyms are not matched, because the files of
WordNet are not a package. No metric needs Java.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.core.errors import DataError
from regard.core.example_statistics import is_collecting, record_mean, record_statistics
from regard.core.extras import require
from regard.data.text.languages import script_of

NGRAM_ORDERS = (1, 2, 3, 4)
NOISE_FLOOR = 1.0  # BLEU below this is noise: single matching n-grams
WORD_PATTERN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
References = Sequence[Sequence[str]]  # the reference captions of each image


class NoSynonyms:
    """Replacement for WordNet in which no word has a synonym."""

    def synsets(self, word: str) -> list[Any]:
        """Return an empty list."""
        return []


def split_words(text: str) -> list[str]:
    """A caption -> its words, lowercased, without punctuation."""
    return WORD_PATTERN.findall(text.lower())


def split_units(text: str) -> list[str]:
    """A caption -> its words; a word in Hangul, Han or Kana is split into characters."""
    return [
        unit
        for word in split_words(text)
        for unit in (word if script_of(word) in ("HANGUL", "CJK", "JAPANESE") else [word])
    ]


def join_units(text: str) -> str:
    """Return the units of a caption joined by single spaces."""
    return " ".join(split_units(text))


def normalize_caption(text: str) -> str:
    """Return the words of a caption joined by single spaces."""
    return " ".join(split_words(text))


def bleu(hypotheses: Sequence[str], references: References) -> dict[str, float]:
    """Captions and all references of each -> corpus-level bleu1 … bleu4, 0 … 100."""
    _check_any(hypotheses, references)
    columns = _columns(references, join_units)
    units = [join_units(text) for text in hypotheses]
    for n in NGRAM_ORDERS:
        _record_bleu(f"bleu{n}", _bleu_metric(n), units, columns)
    return {f"bleu{n}": float(_bleu_metric(n).corpus_score(units, columns).score) for n in NGRAM_ORDERS}


def chrf(hypotheses: Sequence[str], references: References) -> float:
    """Captions and all references of each -> corpus-level chrF, 0 … 100, of lowercased words without punctuation."""
    _check_any(hypotheses, references)
    texts = [normalize_caption(text) for text in hypotheses]
    return float(CHRF().corpus_score(texts, _columns(references, normalize_caption)).score)


def _columns(references: References, normalize: Callable[[str], str]) -> Any:
    """Return the first, second, … reference of every image, None if an image has fewer."""
    return [
        [normalize(captions[i]) if i < len(captions) else None for captions in references]
        for i in range(max(map(len, references)))
    ]


def _record_bleu(name: str, metric: Any, hypotheses: Sequence[str], columns: Any) -> None:
    """Record the n-gram counts of each caption, from whose sums BLEU is computed."""
    if hypotheses and is_collecting():
        record_statistics(
            name,
            metric._extract_corpus_statistics(hypotheses, columns),
            lambda rows: float(metric._compute_score_from_stats(rows.sum(axis=0).tolist()).score),
        )


def _bleu_metric(order: int) -> BLEU:
    return BLEU(max_ngram_order=order, tokenize="none", force=True, smooth_method="none")


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """Return the share of captions that match one of their references word for word."""
    _check_any(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    is_match = [normalize_caption(text) in map(normalize_caption, captions) for text, captions in pairs]
    record_mean("exact", is_match)
    return sum(is_match) / len(hypotheses)


def extras_installed() -> bool:
    """Return True if the libraries of CIDEr and METEOR are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("pycocoevalcap", "nltk"))


def cider(hypotheses: Sequence[str], references: References) -> float:
    """Return CIDEr-D as the COCO server computes it, with document frequencies of these references, times 100."""
    _check_any(hypotheses, references)
    if not any(
        split_words(text) for text in (*hypotheses, *(caption for captions in references for caption in captions))
    ):
        return 0.0  # no caption has a word, so there is no n-gram to compare
    scorer = require("pycocoevalcap.cider.cider", extra="captions").Cider()
    score, _ = scorer.compute_score(
        {i: [join_units(text) for text in captions] for i, captions in enumerate(references)},
        {i: [join_units(text)] for i, text in enumerate(hypotheses)},
    )
    return 100 * float(score)


def meteor(hypotheses: Sequence[str], references: References) -> float:
    """Return the mean over captions of METEOR against the best reference, times 100."""
    _check_any(hypotheses, references)
    meteor_score = require("nltk.translate.meteor_score", extra="captions").meteor_score
    scores = [
        meteor_score([split_units(caption) for caption in captions], split_units(text), wordnet=NoSynonyms())
        for text, captions in zip(hypotheses, references, strict=True)
    ]
    return 100 * float(sum(scores)) / len(scores)


def _check_any(hypotheses: Sequence[str], references: References) -> None:
    """Raise a DataError if there is no caption, or an image without references."""
    if not hypotheses or not all(references):
        problem = "an image has no reference captions" if hypotheses else "there are no captions"
        raise DataError(f"caption metrics: {problem}; give at least one image, each with references")


def signatures() -> dict[str, str]:
    """Return how each metric is computed."""
    words = "lowercased words without punctuation (Hangul, Han and Kana by characters)"
    metric: Any = CHRF()
    metric.corpus_score(["."], [["."]])
    chrf_signature = str(metric.get_signature()).replace("nrefs:1|", "")
    bleus = {"chrf": f"sacreBLEU over all references of each image, lowercased words: {chrf_signature}"}
    for n in NGRAM_ORDERS:
        metric = _bleu_metric(n)
        metric.corpus_score(["."], [["."]])
        signature = str(metric.get_signature()).replace("nrefs:1|", "")  # images differ in the number of references
        bleus[f"bleu{n}"] = f"sacreBLEU order {n} over all references of each image, {words}: {signature}"
    if not extras_installed():
        return bleus | {"cider, meteor": "not computed; run: pip install 'regard[captions]'"}
    return bleus | {
        "cider": f"CIDEr-D of pycocoevalcap × 100, {words}",
        "meteor": f"METEOR of nltk × 100, exact and stem matches without synonyms, best reference, {words}",
    }
