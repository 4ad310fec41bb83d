"""Mask filling: candidates for each masked position, and the most likely ways to fill all of them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError
from regard.core.protocols import Padded
from regard.core.protocols.masked_lm import MaskedBatch, MaskedLM
from regard.core.task import Prediction
from regard.data import batching
from regard.data.text.masking import MASK_PATTERN, MaskedText, special_tokens_of
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.unknown_words import find_unknown_words
from regard.tasks._shared.tokens import token_name


class Candidate(NamedTuple):
    """A token for a masked position, and its log p."""

    token: int
    score: float


def to_masked_batch(texts: Sequence[MaskedText], special_tokens: SpecialTokens) -> MaskedBatch:
    """Masked texts -> one batch. Masked positions do not attend to each other, since their tokens are unknown."""
    padded = batching.pad(
        [[special_tokens.bos, *text.tokens, special_tokens.eos] for text in texts], special_tokens.pad
    )
    is_masked = padded.tokens == (-1 if special_tokens.mask is None else special_tokens.mask)
    return MaskedBatch(
        padded.tokens, padded.tokens, padded.lengths, is_masked, is_masked.long(), torch.zeros_like(padded.tokens)
    )


@lru_cache(maxsize=8)  # the vocabulary is searched once
def excluded_tokens(tokenizer: Tokenizer) -> Tensor:
    """Return the ids of tokens that never fill a mask: special tokens and white space."""
    return torch.tensor([token for token, text in enumerate(tokenizer.token_texts()) if not text.strip()])


def mask_log_probs(model: MaskedLM, batch: MaskedBatch, tokenizer: Tokenizer) -> Tensor:
    """Masked texts -> log p (n v) of the token at each masked position; -inf for excluded tokens."""
    logits = model.readout(model(batch).features).float()
    if not logits.isfinite().all():
        raise CheckpointError(
            "the logits of the masked tokens are not finite; the weights are damaged or training diverged"
        )
    return logits.index_fill(1, excluded_tokens(tokenizer).to(logits.device), -torch.inf).log_softmax(dim=-1)


def mean_features(
    model: MaskedLM, text: MaskedText, special_tokens: SpecialTokens, device: torch.device
) -> NDArray[np.float32]:
    """Text -> the mean (d) of the features of its tokens, without BOS and EOS."""
    row = torch.tensor([[special_tokens.bos, *text.tokens, special_tokens.eos]], device=device)
    features = model.encoder(Padded(row, torch.tensor([row.shape[1]], device=row.device)))
    mean: NDArray[np.float32] = features[0, 1:-1].mean(dim=0).float().cpu().numpy()
    return mean


def predict_masks(
    model: MaskedLM, texts: Sequence[MaskedText], tokenizer: Tokenizer, device: torch.device
) -> list[Tensor]:
    """Masked texts -> log p (masks v) of each text."""
    batch = MaskedBatch(*(part.to(device) for part in to_masked_batch(texts, special_tokens_of(tokenizer))))
    return list(mask_log_probs(model, batch, tokenizer).cpu().split([len(text.mask_positions) for text in texts]))


def to_predictions(text: MaskedText, scores: Tensor, top: int, tokenizer: Tokenizer) -> list[Prediction]:
    """Log p (masks v) -> the `top` most likely ways to fill all masks; `value` has the candidates of each mask."""
    candidates = best_candidates(scores, top)
    unknown = unknown_words(text, tokenizer)
    words = [[(token_name(token, tokenizer), score) for token, score in row] for row in candidates]
    data = {
        "gaps": [
            [{"text": word, "probability": math.exp(score), "score": score} for word, score in row] for row in words
        ]
    }
    return [
        Prediction(fill_text(text, filling, tokenizer), score, score, value=words, data=data).with_unknown_tokens(
            unknown
        )
        for score, filling in best_fillings(candidates, top)
    ]


def unknown_words(text: MaskedText, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the words of a masked text that are not in the vocabulary."""
    return find_unknown_words(MASK_PATTERN.sub(" ", text.text), tokenizer)


def best_candidates(scores: Tensor, count: int) -> list[list[Candidate]]:
    """Log p (masks v) -> the `count` best candidates of each mask, best first."""
    best = scores.topk(min(count, scores.shape[1]), dim=1)
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[Candidate(*pair) for pair in zip(*row, strict=True) if pair[1] > -torch.inf] for row in rows]


def best_fillings(candidates: list[list[Candidate]], count: int) -> list[tuple[float, tuple[int, ...]]]:
    """Candidates of each mask, best first -> the best ways to fill all masks: (sum of log p, one token per mask)."""

    def total(ranks: tuple[int, ...]) -> float:
        return sum(row[rank].score for row, rank in zip(candidates, ranks, strict=True))

    first = (0,) * len(candidates)
    queue, queued, fillings = [(-total(first), first)], {first}, list[tuple[float, tuple[int, ...]]]()
    while queue and len(fillings) < count:
        score, ranks = heapq.heappop(queue)
        fillings.append((-score, tuple(row[rank].token for row, rank in zip(candidates, ranks, strict=True))))
        for mask, rank in enumerate(ranks):  # the next best filling differs from a returned one by one rank in one mask
            following = (*ranks[:mask], rank + 1, *ranks[mask + 1 :])
            if rank + 1 < len(candidates[mask]) and following not in queued:
                queued.add(following)
                heapq.heappush(queue, (-total(following), following))
    return fillings


def fill_text(text: MaskedText, filling: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return the text with its masks replaced by tokens."""
    tokens = list(text.tokens)
    for position, token in zip(text.mask_positions, filling, strict=True):
        tokens[position] = token
    return tokenizer.decode([tokens])[0]
