"""Search of source/target models by CTranslate2: rows of source tokens -> hypotheses. Nothing here imports torch.

Used with torch (models.py) and without (torch_free.py); generation.py continues prompts with language models. A row is
settled if all its hypotheses end within its own limit, without tokens that the native decoders never choose. At the
limit the native decoders end a hypothesis differently from CTranslate2, so rows that are not settled are left to them.
CTranslate2 sorts the rows by length and splits them into batches itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from regard.core.cpu import available_cores
from regard.core.data_specs import SpecialTokens
from regard.core.extras import require
from regard.core.protocols import Hypothesis

PRECISIONS = ("float32", "int8")
SUPPORTED_STRATEGIES = ("greedy", "beam")
# CTranslate2 stops a beam when patience × beam width hypotheses have ended, though a better one may still be growing.
# With 1 it loses the ends of some sentences. With 2 its best was never worse than that of the native beam, which waits
# as long as needed.
PATIENCE = 2.0
MAX_HYPOTHESES_PER_WORKER = 192  # rows of one worker's batch; with 64 a corpus takes 6 % longer
Table = Mapping[str, Any]
RowHypotheses = list[list[Hypothesis] | None]  # of each row, best first; None: not settled


def open_export(folder: Path, *, precision: str = "float32", single: bool = False) -> Any:
    """Open an export: one single-threaded worker per core, or one worker with many threads for a single row."""
    library, cores = require("ctranslate2", extra="ctranslate2"), available_cores()
    workers, threads = (1, cores) if single else (cores, 1)
    return library.Translator(
        str(folder), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=threads
    )


def ct2_options(decoding: Table, *, suppressed_tokens: Sequence[int]) -> dict[str, Any]:
    """Convert decoding settings to options of CTranslate2's translators and generators.

    CTranslate2 removes suppressed tokens from the distribution; native scores are those of the full distribution.
    """
    width = decoding.get("beam_width", 1)
    return {
        "beam_size": width,
        "patience": PATIENCE if width > 1 else 1.0,
        "length_penalty": float(decoding.get("length_penalty", 0.0)),
        "no_repeat_ngram_size": decoding["no_repeat_ngram_size"],
        "suppress_sequences": [[str(token)] for token in suppressed_tokens],
        "return_end_token": True,
        "return_scores": True,
    }


def submit(
    translator: Any,
    rows: Sequence[Sequence[int]],
    limits: Sequence[int],
    *,
    decoding: Table,
    special_tokens: SpecialTokens,
    return_scores: bool = True,
) -> Callable[[], RowHypotheses]:
    """Submit rows to CTranslate2 -> a function that waits for their hypotheses.

    Without `return_scores`, which greedy search need not compute, the scores are NaN.
    """
    if not rows:
        return list
    max_rows = max(1, MAX_HYPOTHESES_PER_WORKER // decoding.get("beam_width", 1))
    results = translator.translate_batch(
        [list(map(str, row)) for row in rows],
        num_hypotheses=decoding.get("nbest", 1),
        min_decoding_length=decoding["min_length"],
        max_decoding_length=max(limits) + 1,
        max_batch_size=min(max_rows, -(-len(rows) // translator.num_translators)),  # every worker gets rows
        asynchronous=True,
        **ct2_options(decoding, suppressed_tokens=decoding["suppress_tokens"]) | {"return_scores": return_scores},
    )
    penalty = float(decoding.get("length_penalty", 0.0))
    # the start of a greedy output does not depend on its end, so it may be cut at the limit
    may_cut = decoding.get("name") == "greedy" and not return_scores

    def wait() -> RowHypotheses:
        hypotheses: RowHypotheses = []
        for pending, limit in zip(results, limits, strict=True):
            result = pending.result()
            outputs = result.hypotheses
            if may_cut:
                outputs = [_cut(tokens, special_tokens, limit=limit) for tokens in outputs]
            settled = _is_settled(outputs, special_tokens, limit=limit)
            hypotheses.append(to_hypotheses(outputs, result.scores, penalty=penalty) if settled else None)
        return hypotheses

    return wait


def to_hypotheses(outputs: list[list[str]], scores: Sequence[float] | None, *, penalty: float) -> list[Hypothesis]:
    """Convert token ids as text, EOS last, to hypotheses.

    CTranslate2 and the native search rank by the sum of log p divided by length^penalty, EOS included; the sum is
    computed from it.
    """
    return [
        Hypothesis(tuple(map(int, tokens[:-1])), rank * len(tokens) ** penalty, rank)
        for tokens, rank in zip(outputs, scores or repeat(math.nan), strict=False)
    ]


def _cut(tokens: list[str], special_tokens: SpecialTokens, *, limit: int) -> list[str]:
    """Cut tokens at the limit and append EOS, as the native decoders do."""
    return tokens if len(tokens) <= limit else [*tokens[:limit], str(special_tokens.eos)]


def _is_settled(outputs: list[list[str]], special_tokens: SpecialTokens, *, limit: int) -> bool:
    """Return True if all outputs end within the limit and contain only tokens that the native decoders allow."""
    eos, never = str(special_tokens.eos), {str(special_tokens.pad), str(special_tokens.bos)}
    return all(
        tokens and tokens[-1] == eos and len(tokens) <= limit + 1 and never.isdisjoint(tokens) for tokens in outputs
    )
