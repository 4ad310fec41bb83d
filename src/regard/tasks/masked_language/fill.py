"""Gaps filled: the likeliest words of each, the likeliest ways to fill all of them, and how both are shown."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.core.protocols.masked_lm import MaskedBatch, MaskedLM
from regard.core.task import Prediction
from regard.data import batching
from regard.data.text.masking import MASK_PATTERN, MaskedText, special_tokens_of
from regard.data.text.tokenizer import Tokenizer
from regard.tasks.language.inspect import display_name, sample_vocabulary

MIN_CANDIDATES = 8  # words that are shown for each gap, at least


class Candidate(NamedTuple):
    """A token that might stand in a gap, and its log p."""

    token: int
    score: float


def to_masked_batch(texts: Sequence[MaskedText], special_tokens: SpecialTokens) -> MaskedBatch:
    """Texts with gaps -> one batch. No gap sees another: what stands there nobody knows."""
    padded = batching.pad(
        [[special_tokens.bos, *text.tokens, special_tokens.eos] for text in texts], special_tokens.pad
    )
    chosen = padded.tokens == (-1 if special_tokens.mask is None else special_tokens.mask)
    return MaskedBatch(
        padded.tokens, padded.tokens, padded.lengths, chosen, chosen.long(), torch.zeros_like(padded.tokens)
    )


@lru_cache(maxsize=8)  # a vocabulary is gone through once
def excluded_tokens(tokenizer: Tokenizer) -> Tensor:
    """The tokens that stand in no gap: marks, and blanks."""
    return torch.tensor([number for number, word in enumerate(tokenizer.token_texts()) if not word.strip()])


def mask_log_probs(model: MaskedLM, batch: MaskedBatch, tokenizer: Tokenizer) -> Tensor:
    """Texts with gaps -> log p (n v) of what stands in each gap; a mark or a blank never does."""
    logits = model.readout(model(batch).features).float()
    if not logits.isfinite().all():
        raise CheckpointError(
            "what the model makes of the gaps is not finite; its weights are damaged or diverged in training"
        )
    return logits.index_fill(1, excluded_tokens(tokenizer).to(logits.device), -torch.inf).log_softmax(dim=-1)


def predict_masks(
    model: MaskedLM, texts: Sequence[MaskedText], tokenizer: Tokenizer, device: torch.device
) -> list[Tensor]:
    """Texts with gaps -> for each log p (gaps v) of what stands in them."""
    gaps = MaskedBatch(*(part.to(device) for part in to_masked_batch(texts, special_tokens_of(tokenizer))))
    return list(mask_log_probs(model, gaps, tokenizer).cpu().split([len(text.mask_positions) for text in texts]))


def to_predictions(text: MaskedText, scores: Tensor, top: int, tokenizer: Tokenizer) -> list[Prediction]:
    """Log p (gaps v) -> the `top` likeliest ways to fill all gaps, and the candidates of each gap as `value`."""
    candidates = _candidates(scores, top)
    words = [[(display_name(each.token, tokenizer), each.score) for each in some] for some in candidates]
    data = {"gaps": [[{"text": word, "score": score} for word, score in some] for some in words]}
    return [
        Prediction(_text(text, filling, tokenizer), score, score, value=words, data=data)
        for score, filling in best_fillings(candidates, top)
    ]


def _candidates(scores: Tensor, count: int) -> list[list[Candidate]]:
    best = scores.topk(min(count, scores.shape[1]), dim=1)
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[Candidate(*pair) for pair in zip(*row, strict=True) if pair[1] > -torch.inf] for row in rows]


def best_fillings(candidates: list[list[Candidate]], count: int) -> list[tuple[float, tuple[int, ...]]]:
    """Candidates of each gap, best first -> the best ways to fill all, as a sum of log p and a token for each gap."""

    def total(places: tuple[int, ...]) -> float:
        return sum(some[place].score for some, place in zip(candidates, places, strict=True))

    first = (0,) * len(candidates)
    waiting, known, found = [(-total(first), first)], {first}, list[tuple[float, tuple[int, ...]]]()
    while waiting and len(found) < count:
        score, places = heapq.heappop(waiting)
        found.append((-score, tuple(some[place].token for some, place in zip(candidates, places, strict=True))))
        for gap, place in enumerate(places):  # the next best differs from one already found in one gap by one place
            longer = (*places[:gap], place + 1, *places[gap + 1 :])
            if place + 1 < len(candidates[gap]) and longer not in known:
                known.add(longer)
                heapq.heappush(waiting, (-total(longer), longer))
    return found


def _text(text: MaskedText, filling: Sequence[int], tokenizer: Tokenizer) -> str:
    tokens = list(text.tokens)
    for place, token in zip(text.mask_positions, filling, strict=True):
        tokens[place] = token
    return tokenizer.decode([tokens])[0]


def build_inspectable(
    model: MaskedLM, text: MaskedText, top: int, *, tokenizer: Tokenizer, device: torch.device
) -> Inspectable:
    """A text with gaps -> its tokens, the gaps with their candidates, and the way to run the model again."""
    marks = special_tokens_of(tokenizer)
    gaps = MaskedBatch(*(part.to(device) for part in to_masked_batch([text], marks)))
    begun = time.perf_counter()
    scores = mask_log_probs(model, gaps, tokenizer).cpu()
    seconds = time.perf_counter() - begun
    candidates = _candidates(scores, max(top, MIN_CANDIDATES))
    best = [some[0].token for some in candidates]
    items = [
        Item("[MASK]" if place in text.mask_positions else display_name(token, tokenizer))
        for place, token in enumerate(text.tokens)
    ]
    first, last = (Item(tokenizer.token_text(mark), special=True) for mark in (marks.bos, marks.eos))
    tokens = tuple(_token(some, tokenizer) for some in candidates)
    return Inspectable(
        title=MASK_PATTERN.sub("___", text.text),
        axes={
            "text": Axis((first, *items, last), "text", input="text"),
            "gaps": Axis(tuple(Item(f"gap {number + 1}") for number in range(len(best))), "gaps"),
        },
        query_axes={"text": (AxisRef("text"),), "gaps": (AxisRef("gaps"),)},
        key_axes={"text": (AxisRef("text"),)},
        outputs=tuple(
            Output(_text(text, filling, tokenizer), score, score, tokens if number == 0 else ())
            for number, (score, filling) in enumerate(best_fillings(candidates, top))
        ),
        replay=lambda: mask_log_probs(model, gaps, tokenizer),
        predicted_ids=torch.tensor(best, device=device),
        seconds=seconds,
        answer_axis="gaps",
        ablations={"text": lambda: _without(model, gaps, tokenizer)},
        inputs={"text": gaps.input_tokens},
        vocabularies=(sample_vocabulary(tokenizer, (*best, *text.tokens)),),
        views=("masked",),
        extra={
            "masked": {"gaps": [place + 1 for place in text.mask_positions]}
        },  # their places on the axis, behind the start mark
    )


def _token(candidates: list[Candidate], tokenizer: Tokenizer) -> Token:
    words = tuple((display_name(token, tokenizer), score) for token, score in candidates)
    return Token(*words[0], words)


def _without(model: MaskedLM, gaps: MaskedBatch, tokenizer: Tokenizer) -> Tensor:
    """Log p (t n v), each token of the text in turn replaced by the unknown token; a gap stays one."""
    length, count = gaps.input_tokens.shape[1], int(gaps.prediction_mask.sum())
    hidden = torch.eye(length, dtype=torch.bool, device=gaps.input_tokens.device) & ~gaps.prediction_mask
    seen = gaps.input_tokens.expand(length, -1).masked_fill(hidden, SpecialTokens.unk)
    rows = MaskedBatch(*(part.expand(length, *part.shape[1:]) for part in gaps))._replace(
        input_tokens=seen, tokens=seen
    )
    return mask_log_probs(model, rows, tokenizer).view(length, count, -1)
