"""Scores of captions against all that people said of an image: BLEU-1 … 4, CIDEr, METEOR.

All are computed on lowercased words without punctuation. BLEU is sacreBLEU's, CIDEr that of the COCO evaluation
(`pycocoevalcap`), METEOR that of `nltk` with exact and stem matches; synonyms would need WordNet's files, which are no
package, and are left out. None of them needs Java.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from regard.core.extras import require

NGRAM_ORDERS = (1, 2, 3, 4)
WORD_PATTERN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
References = Sequence[Sequence[str]]  # of each image what people said


class NoSynonyms:
    """In place of WordNet: no word has another of the same meaning."""

    def synsets(self, word: str) -> list[Any]:
        """None."""
        return []


def split_words(text: str) -> list[str]:
    """A caption -> its words, lowercased, without punctuation."""
    return WORD_PATTERN.findall(text.lower())


def normalize_caption(text: str) -> str:
    """A caption as its words with a space between them."""
    return " ".join(split_words(text))


def bleu(hypotheses: Sequence[str], references: References) -> dict[str, float]:
    """Captions and for each all references -> bleu1 … bleu4, 0 … 100, by counts over the whole corpus."""
    most = max(map(len, references))
    columns: Any = [[normalize_caption(each[i]) if i < len(each) else None for each in references] for i in range(most)]
    said = [normalize_caption(text) for text in hypotheses]
    return {f"bleu{n}": float(_measure(n).corpus_score(said, columns).score) for n in NGRAM_ORDERS}


def _measure(order: int) -> BLEU:
    return BLEU(max_ngram_order=order, tokenize="none", force=True, smooth_method="none")


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """The percentage of captions that are one of their references, word for word."""
    pairs = zip(hypotheses, references, strict=True)
    return 100 * sum(normalize_caption(text) in map(normalize_caption, each) for text, each in pairs) / len(hypotheses)


def extras_installed() -> bool:
    """Whether the libraries of CIDEr and METEOR are there."""
    return all(importlib.util.find_spec(name) is not None for name in ("pycocoevalcap", "nltk"))


def cider(hypotheses: Sequence[str], references: References) -> float:
    """CIDEr-D as the COCO server computes it, document frequencies from these references, times 100."""
    scorer = require("pycocoevalcap.cider.cider", extra="captions").Cider()
    truth = {number: [normalize_caption(text) for text in each] for number, each in enumerate(references)}
    found, _ = scorer.compute_score(
        truth, {number: [normalize_caption(text)] for number, text in enumerate(hypotheses)}
    )
    return 100 * float(found)


def meteor(hypotheses: Sequence[str], references: References) -> float:
    """The mean over captions of METEOR against the best reference, times 100."""
    score = require("nltk.translate.meteor_score", extra="captions").meteor_score
    each = [
        score([split_words(one) for one in truth], split_words(text), wordnet=NoSynonyms())
        for text, truth in zip(hypotheses, references, strict=True)
    ]
    return 100 * float(sum(each)) / len(each)


def signatures() -> dict[str, str]:
    """How each score is computed, for others to repeat it."""
    how = "lowercased words without punctuation"
    bleus = {}
    for n in NGRAM_ORDERS:
        measure = _measure(n)
        measure.corpus_score(["."], [["."]])
        signature = str(measure.get_signature()).replace("nrefs:1|", "")  # there are as many as an image has
        bleus[f"bleu{n}"] = f"sacreBLEU order {n} over all references of each image, {how}: {signature}"
    if not extras_installed():
        return bleus | {"cider, meteor": "not computed; run: pip install 'regard[captions]'"}
    return bleus | {
        "cider": f"CIDEr-D of pycocoevalcap × 100, {how}",
        "meteor": f"METEOR of nltk × 100, exact and stem matches without synonyms, best reference, {how}",
    }
