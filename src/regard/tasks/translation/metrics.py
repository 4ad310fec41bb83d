"""Translation metrics: BLEU and chrF by sacreBLEU with their signatures, and the alignment error rate of attention."""

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
from regard.core.example_statistics import is_collecting, record_statistics
from regard.core.inference_mode import eval_mode
from regard.core.protocols import Padded
from regard.core.state_tree import map_tensors
from regard.data import batching
from regard.data.files.text_files import read_lines
from regard.data.text.alignment import Links, align_words, error_rate, word_indices
from regard.data.text.pair_corpus import has_both_sides
from regard.data.text.pair_files import Pair
from regard.data.text.tokenizer import TokenizerPair

BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char"}  # of languages whose words are not separated by spaces alone
CHARACTER_TOKENIZERS = ("char", "zh", "ko-mecab", "ja-mecab")
MECAB_PACKAGES = {"ko-mecab": ("mecab_ko", "ko"), "ja-mecab": ("MeCab", "ja")}  # required package, extra of sacreBLEU
CROSS_ATTENTION_AXES = ("target", "source")  # query and key axis of attention from target to source
NOISE_FLOOR = 1.0  # BLEU below this is noise: single matching n-grams, smoothed
BATCH_PAIRS = 32  # pairs in a batch of the alignment error rate


def bleu_tokenizer(language: str, requested: str = "") -> str:
    """Return the name of the BLEU tokenizer: the requested one, or the default of the target language.

    Korean is split into characters, on every machine. Its words between spaces are whole phrases, few of which match
    exactly; 13a is made for European languages. Morphemes (ko-mecab) need a package and must be requested.
    """
    if requested:
        if requested not in _TOKENIZERS:
            raise ConfigError(
                f"bleu={requested!r} is not a tokenizer of sacreBLEU; {did_you_mean(requested, _TOKENIZERS)}"
            )
        package, extra = MECAB_PACKAGES.get(requested, (None, ""))
        if package is not None and find_spec(package) is None:
            raise MissingExtra(
                f"bleu={requested} needs {package}, not installed; run: pip install 'sacrebleu[{extra}]'"
            )
        return requested
    code = language.partition("-")[0].partition("_")[0].lower()
    return BLEU_TOKENIZERS.get(code, "13a")


def build_metrics(tokenize: str) -> dict[str, Any]:
    """The name of a BLEU tokenizer -> the sacreBLEU metrics: cased BLEU, lowercased BLEU, chrF.

    chrF comes first for languages without a word tokenizer, since it does not depend on one.
    """
    # Texts are already detokenized; without `force`, sacreBLEU takes a " ." at the end as a sign that they are not.
    settings: dict[str, Any] = {"tokenize": tokenize, "force": True}
    bleus = {"bleu": BLEU(**settings), "bleu_lc": BLEU(lowercase=True, **settings)}
    return {"chrf": CHRF(), **bleus} if tokenize in CHARACTER_TOKENIZERS else {**bleus, "chrf": CHRF()}


def compute_metrics(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str) -> dict[str, float]:
    """Translations and references -> bleu, bleu_lc and chrf, 0 … 100."""
    if not hypotheses:
        raise DataError("BLEU and chrF: there are no sentences; give at least one translation and its reference")
    metrics = build_metrics(tokenize)
    for name, metric in metrics.items():
        record_corpus_metric(name, metric, hypotheses, [references])
    return {name: float(metric.corpus_score(hypotheses, [references]).score) for name, metric in metrics.items()}


def record_corpus_metric(name: str, metric: Any, hypotheses: Sequence[str], references: Sequence[Any]) -> None:
    """Record the counts of each sentence, from whose sums a sacreBLEU metric is computed."""
    if hypotheses and is_collecting():
        record_statistics(
            name,
            metric._extract_corpus_statistics(hypotheses, references),
            lambda rows: float(metric._compute_score_from_stats(rows.sum(axis=0).tolist()).score),
        )


def score_file(path: Path, pairs: Sequence[tuple[str, str]], *, tokenize: str) -> dict[str, float]:
    """Score a file of translations from another system, one per line, against the targets of the pairs.

    Pairs with an empty side are not scored, as in the evaluation of a model.
    """
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise DataError(f"{path}: {len(lines)} lines for {len(pairs)} texts; give one translation per line")
    scored = [(line, pair[1]) for line, pair in zip(lines, pairs, strict=True) if has_both_sides(pair)]
    return compute_metrics([line for line, _ in scored], [target for _, target in scored], tokenize=tokenize)


def signatures(tokenize: str) -> dict[str, str]:
    """The name of a BLEU tokenizer -> the sacreBLEU signature of each metric."""
    metrics = build_metrics(tokenize)
    for metric in metrics.values():
        metric.corpus_score(["."], [["."]])  # a signature names the number of references, known only after a use
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}


def has_cross_attention(model: Any) -> bool:
    """Return True if the model attends from the target to the source."""
    return CROSS_ATTENTION_AXES in {(attend.queries, attend.keys) for attend in attention_modules(model).values()}


def alignment_errors(
    model: Any,
    pairs: Sequence[Pair],
    true_links: Sequence[Links],
    *,
    vocabularies: TokenizerPair,
    special_tokens: SpecialTokens,
) -> dict[str, float]:
    """Pairs and their true links -> the alignment error rate of each cross-attention module, heads averaged.

    The model reads the reference translations. Empty if it has no cross-attention.
    """
    if not has_cross_attention(model):
        return {}
    predicted: dict[str, list[Links]] = defaultdict(list)
    with eval_mode(model):
        for low in range(0, len(pairs), BATCH_PAIRS):
            batch = pairs[low : low + BATCH_PAIRS]
            rows = vocabularies.source.encode([source for source, _ in batch])
            source = batching.pad([[*row, special_tokens.eos] for row in rows], special_tokens.pad)
            for name, links in predict_links(model, batch, source, vocabularies, special_tokens).items():
                predicted[name] += links
    return {name: error_rate(links, true_links[: len(links)]) for name, links in predicted.items()}


def predict_links(
    model: Any, pairs: Sequence[Pair], source: Padded, vocabularies: TokenizerPair, special_tokens: SpecialTokens
) -> dict[str, list[Links]]:
    """Sentence pairs and the rows of their sources -> the word alignment of each pair by every cross-attention module,
    in the order of the layers."""
    sides = [
        [tokenizer.encode_with_offsets(pair[side]) for pair in pairs] for side, tokenizer in enumerate(vocabularies)
    ]
    targets = [[span.token for span in spans] for spans in sides[1]]
    words = [
        [word_indices(pair[side], spans) for pair, spans in zip(pairs, sides[side], strict=True)] for side in (0, 1)
    ]
    device = next(model.parameters()).device
    target = batching.pad([[special_tokens.bos, *row] for row in targets], special_tokens.pad)
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
