"""Scores of translations by sacreBLEU, with the signatures that say how they were computed.

How well the attention of a translation model finds the true word alignment, on whole splits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import _TOKENIZERS, BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.attention.record import attention_modules, record
from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, DataError, MissingExtra, did_you_mean
from regard.core.inference_mode import eval_mode
from regard.core.state_tree import map_tensors
from regard.data import batching
from regard.data.files.text_files import read_lines
from regard.data.text.alignment import Links, align_words, error_rate, word_indices
from regard.data.text.pair_files import Pair
from regard.data.text.tokenizer import TokenizerPair

BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char"}  # of languages whose words are not parted by spaces alone
MECAB_PACKAGES = {
    "ko-mecab": ("mecab_ko", "ko"),
    "ja-mecab": ("MeCab", "ja"),
}  # the package each needs, and sacreBLEU's extra


def bleu_tokenizer(language: str, requested: str = "") -> str:
    """The target language -> what cuts its texts for BLEU: as asked for, or else the language's own.

    Korean is cut into morphemes by ko-mecab where that is installed (as sacreBLEU recommends), else into characters:
    between spaces stand whole phrases, of which 13a, which is for European languages, would count few.
    """
    if requested:
        if requested not in _TOKENIZERS:
            raise ConfigError(
                f"bleu={requested!r} is no tokenizer of sacreBLEU; {did_you_mean(requested, _TOKENIZERS)}"
            )
        package, extra = MECAB_PACKAGES.get(requested, (None, ""))
        if package is not None and find_spec(package) is None:
            raise MissingExtra(
                f"bleu={requested} needs {package}, not installed; run: pip install 'sacrebleu[{extra}]'"
            )
        return requested
    plain = language.partition("-")[0].partition("_")[0].lower()
    return "ko-mecab" if plain == "ko" and find_spec("mecab_ko") else BLEU_TOKENIZERS.get(plain, "13a")


def build_metrics(tokenize: str) -> dict[str, Any]:
    """What cuts texts -> the measures: cased BLEU, lowercased BLEU, chrF."""
    # Texts are detokenised already; without `force` sacreBLEU guesses from a " ." at the end that they are not.
    plain: dict[str, Any] = {"tokenize": tokenize, "force": True}
    return {"bleu": BLEU(**plain), "bleu_lc": BLEU(lowercase=True, **plain), "chrf": CHRF()}


def compute_metrics(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str) -> dict[str, float]:
    """Translations and references -> bleu, bleu_lc and chrf, 0 … 100."""
    measures = build_metrics(tokenize)
    return {name: float(metric.corpus_score(hypotheses, [references]).score) for name, metric in measures.items()}


def score_file(path: Path, pairs: Sequence[tuple[str, str]], *, tokenize: str) -> dict[str, float]:
    """A file of translations made elsewhere, one a line, and the pairs they belong to -> their scores."""
    given = list(read_lines(path))
    if len(given) != len(pairs):
        raise DataError(
            f"{path}: {len(given)} lines, but there are {len(pairs)} texts; a line is the translation of each"
        )
    return compute_metrics(given, [target for _, target in pairs], tokenize=tokenize)


def signatures(tokenize: str) -> dict[str, str]:
    """What cuts texts -> how each score is computed, for others to repeat it."""
    measures = build_metrics(tokenize)
    for metric in measures.values():
        metric.corpus_score(["."], [["."]])  # a signature names the number of references, known only after a use
    return {name: str(metric.get_signature()) for name, metric in measures.items()}


CROSS_ATTENTION_AXES = ("target", "source")  # queries and keys of the attention between the two sentences
BATCH_PAIRS = 32  # pairs read at once


def alignment_errors(
    model: Any,
    pairs: Sequence[Pair],
    true_links: Sequence[Links],
    *,
    vocabularies: TokenizerPair,
    special_tokens: SpecialTokens,
) -> dict[str, float]:
    """Pairs and their true links -> the error rate of each attention between target and source, heads averaged.

    The model reads the reference translations. Empty where it has no such attention.
    """
    if CROSS_ATTENTION_AXES not in {(attend.queries, attend.keys) for attend in attention_modules(model).values()}:
        return {}
    guesses: dict[str, list[Links]] = defaultdict(list)
    with eval_mode(model):
        for low in range(0, len(pairs), BATCH_PAIRS):
            for name, aligned in _aligned(model, pairs[low : low + BATCH_PAIRS], vocabularies, special_tokens).items():
                guesses[name] += aligned
    return {name: error_rate(guess, true_links[: len(guess)]) for name, guess in guesses.items()}


def _aligned(
    model: Any, pairs: Sequence[Pair], vocabularies: TokenizerPair, marks: SpecialTokens
) -> dict[str, list[Links]]:
    """Sentence pairs -> the word alignment of each by every attention between target and source."""
    sides = [
        [tokenizer.encode_with_offsets(pair[side]) for pair in pairs] for side, tokenizer in enumerate(vocabularies)
    ]
    sources, targets = ([[piece.token for piece in pieces] for pieces in side] for side in sides)
    words = [
        [word_indices(pair[side], pieces) for pair, pieces in zip(pairs, sides[side], strict=True)] for side in (0, 1)
    ]
    device = next(model.parameters()).device
    source = batching.pad([[*row, marks.eos] for row in sources], marks.pad)
    target = batching.pad([[marks.bos, *row] for row in targets], marks.pad)
    with record(model) as maps:
        model(target.tokens.to(device), model.start(map_tensors(source, lambda x: x.to(device))))
    return {
        name: [
            align_words(weights.numpy(), source=columns, target=rows)
            for weights, columns, rows in zip(attention.weights.mean(dim=1).cpu(), *words, strict=True)
        ]
        for name, attention in maps.items()
        if (attention.queries, attention.keys) == CROSS_ATTENTION_AXES
    }
