"""Batched search: decode many inputs in batches and return their hypotheses in input order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.progress import track
from regard.core.protocols import Decoder, Grammar, Hypothesis, Indices
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding

MAX_HYPOTHESES = 640  # decoded together; more gain little and take memory


class SearchBatch(NamedTuple):
    """Inputs that are decoded together."""

    source: Any  # argument of Decoder.start, on the device of the model
    limits: Tensor  # (b) maximum number of output tokens of each input


def max_batch_size(decoding: DecodingStrategy, limit: int) -> int:
    """Return the number of inputs in a batch: at most `limit`, and at most MAX_HYPOTHESES hypotheses."""
    return min(limit, max(1, MAX_HYPOTHESES // decoding.width))


def search_batches(
    model: Decoder,
    decoding: DecodingStrategy,
    batches: Sequence[Indices],
    load_batch: Callable[[Indices, torch.device], SearchBatch],
    *,
    special_tokens: SpecialTokens,
    sample_indices: Sequence[int],
    grammar: Grammar | None = None,
) -> list[list[Hypothesis]]:
    """Batches of input indices -> the hypotheses of each input, best first, in input order.

    Samples for input i depend on the seed and on `sample_indices[i]`, not on the batch that contains it.
    """
    hypotheses: list[list[Hypothesis]] = [[] for _ in sample_indices]
    with eval_mode(model) as device:
        fast_model = optimize_for_decoding(model)
        for indices in track(batches, total=len(sample_indices), size=len):
            source, limits = load_batch(indices, device)
            results = decoding(
                fast_model,
                fast_model.start(source),
                special_tokens=special_tokens,
                limits=limits,
                sample_indices=torch.tensor([sample_indices[i] for i in indices], device=device),
                grammar=grammar,
            )
            for i, result in zip(indices.tolist(), results, strict=True):
                hypotheses[i] = result
    return hypotheses
