"""A search by CTranslate2, given rows of tokens and the settings of a decoder of ours. Nothing here imports torch.

CTranslate2 sorts rows by length and cuts them into batches itself. A row is settled when all its hypotheses ended
within the row's own limit, without marks that our decoders never choose; at the limit these end a hypothesis in a way
that CTranslate2 has not. A row that is not settled is left to them.
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
# CTranslate2 ends a beam once so many times its width have ended, though a better one may still be growing. At 1 it
# loses the ends of some sentences; at 2 its best was never worse than that of our beam, which waits as long as needed.
PATIENCE = 2.0
MAX_HYPOTHESES_PER_WORKER = 192  # that one worker carries forward at once, at most; by 64 a corpus takes 6 % longer
Table = Mapping[str, Any]
RowHypotheses = list[list[Hypothesis] | None]  # of each row, best first; None: not settled


def open_export(folder: Path, *, precision: str = "float32", single: bool = False) -> Any:
    """An export, ready: a worker of one thread on each core, or one worker of many threads for a single row."""
    library, cores = require("ctranslate2", extra="ctranslate2"), available_cores()
    workers, threads = (1, cores) if single else (cores, 1)
    return library.Translator(
        str(folder), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=threads
    )


def ct2_options(decoding: Table, *, suppressed_tokens: Sequence[int]) -> dict[str, Any]:
    """What CTranslate2 calls the settings of a decoder, for its translators and generators alike. What must never come
    has no share of the probability there, while our scores are those of the model's own distribution."""
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
    """Hand rows over to CTranslate2, which works on them from now on -> a function that waits for what it finds.

    Without scores, which greedy search need not compute, hypotheses have NaN in their place.
    """
    if not rows:
        return list
    most = max(1, MAX_HYPOTHESES_PER_WORKER // decoding.get("beam_width", 1))
    results = translator.translate_batch(
        [list(map(str, row)) for row in rows],
        num_hypotheses=decoding.get("nbest", 1),
        min_decoding_length=decoding["min_length"],
        max_decoding_length=max(limits) + 1,
        max_batch_size=min(most, -(-len(rows) // translator.num_translators)),  # every worker has some
        asynchronous=True,
        **ct2_options(decoding, suppressed_tokens=decoding["suppress_tokens"]) | {"return_scores": return_scores},
    )
    penalty = float(decoding.get("length_penalty", 0.0))
    cut = (
        decoding.get("name") == "greedy" and not return_scores
    )  # what greedy search begins with does not depend on its end

    def wait() -> RowHypotheses:
        found: RowHypotheses = []
        for result, limit in zip(results, limits, strict=True):
            ready = result.result()
            rows = (
                [_ended(words, special_tokens, limit=limit) for words in ready.hypotheses] if cut else ready.hypotheses
            )
            settled = _is_settled(rows, special_tokens, limit=limit)
            found.append(to_hypotheses(rows, ready.scores, penalty=penalty) if settled else None)
        return found

    return wait


def _ended(words: list[str], marks: SpecialTokens, *, limit: int) -> list[str]:
    """Tokens that go on beyond the limit, ended there, as our decoders do."""
    return words if len(words) <= limit else [*words[:limit], str(marks.eos)]


def _is_settled(rows: list[list[str]], marks: SpecialTokens, *, limit: int) -> bool:
    """Whether all hypotheses have ended within the limit, by tokens that our decoders allow."""
    end, never = str(marks.eos), {str(marks.pad), str(marks.bos)}
    return all(words and words[-1] == end and len(words) <= limit + 1 and never.isdisjoint(words) for words in rows)


def to_hypotheses(rows: list[list[str]], scores: Sequence[float] | None, *, penalty: float) -> list[Hypothesis]:
    """Tokens by name, an end mark last -> hypotheses. CTranslate2 ranks by the sum of log p divided by length^penalty,
    the end mark counted, as we do; the sum is wanted too."""
    return [
        Hypothesis(tuple(map(int, words[:-1])), rank * len(words) ** penalty, rank)
        for words, rank in zip(rows, scores or repeat(math.nan), strict=False)
    ]
