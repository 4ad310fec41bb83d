"""Inspection of a masked language model: the tokens of a text, and the candidates of each mask."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.core.prediction import unknown_token_remarks
from regard.core.protocols.masked_lm import MaskedBatch, MaskedLM
from regard.data.text.masking import MASK_PATTERN, MaskedText, special_tokens_of
from regard.data.text.tokenizer import Tokenizer
from regard.tasks._shared.tokens import token_name, vocabulary_sample
from regard.tasks.masked_language.fill import (
    Candidate,
    best_candidates,
    best_fillings,
    fill_text,
    mask_log_probs,
    to_masked_batch,
    unknown_words,
)

MIN_CANDIDATES = 8  # minimum number of candidates shown per mask


def build_inspectable(
    model: MaskedLM, text: MaskedText, top: int, *, tokenizer: Tokenizer, device: torch.device
) -> Inspectable:
    """A masked text -> its tokens, the masks with their candidates, and a replay."""
    special_tokens = special_tokens_of(tokenizer)
    batch = MaskedBatch(*(part.to(device) for part in to_masked_batch([text], special_tokens)))
    start_time = time.perf_counter()
    scores = mask_log_probs(model, batch, tokenizer).cpu()
    seconds = time.perf_counter() - start_time
    candidates = best_candidates(scores, max(top, MIN_CANDIDATES))
    best = [row[0].token for row in candidates]
    items = [
        Item("[MASK]" if position in text.mask_positions else token_name(token, tokenizer))
        for position, token in enumerate(text.tokens)
    ]
    bos, eos = (Item(tokenizer.token_text(token), special=True) for token in (special_tokens.bos, special_tokens.eos))
    tokens = tuple(_with_alternatives(row, tokenizer) for row in candidates)
    return Inspectable(
        title=MASK_PATTERN.sub("___", text.text),
        axes={
            "text": Axis((bos, *items, eos), "text", input="text"),
            "gaps": Axis(tuple(Item(f"gap {index + 1}") for index in range(len(best))), "gaps"),
        },
        query_axes={"text": (AxisRef("text"),), "gaps": (AxisRef("gaps"),)},
        key_axes={"text": (AxisRef("text"),)},
        outputs=tuple(
            Output(fill_text(text, filling, tokenizer), score, score, tokens if index == 0 else ())
            for index, (score, filling) in enumerate(best_fillings(candidates, top))
        ),
        replay=lambda: mask_log_probs(model, batch, tokenizer),
        predicted_ids=torch.tensor(best, device=device),
        seconds=seconds,
        answer_axis="gaps",
        ablations={"text": lambda: _ablate_tokens(model, batch, tokenizer)},
        inputs={"text": batch.input_tokens},
        vocabularies=(vocabulary_sample(tokenizer, (*best, *text.tokens)),),
        views=("masked",),
        remarks=unknown_token_remarks(unknown_words(text, tokenizer)),
        extra={"masked": {"gaps": [position + 1 for position in text.mask_positions]}},  # on the axis, after BOS
    )


def _with_alternatives(candidates: list[Candidate], tokenizer: Tokenizer) -> Token:
    words = tuple((token_name(token, tokenizer), score) for token, score in candidates)
    return Token(*words[0], words)


def _ablate_tokens(model: MaskedLM, batch: MaskedBatch, tokenizer: Tokenizer) -> Tensor:
    """Return log p (t n v) with each token of the text in turn replaced by UNK; masks are not replaced."""
    length, count = batch.input_tokens.shape[1], int(batch.prediction_mask.sum())
    replaced = torch.eye(length, dtype=torch.bool, device=batch.input_tokens.device) & ~batch.prediction_mask
    tokens = batch.input_tokens.expand(length, -1).masked_fill(replaced, SpecialTokens.unk)
    expanded = MaskedBatch(*(part.expand(length, *part.shape[1:]) for part in batch))
    expanded = expanded._replace(input_tokens=tokens, tokens=tokens)
    return mask_log_probs(model, expanded, tokenizer).view(length, count, -1)
