"""Inspection of a language model: the probability and the alternatives of every token of a text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import torch

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.core.protocols import Decoder, Padded
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.tasks._shared.teacher_forcing import (
    ablate_tokens,
    gather_log_probs,
    log_probabilities,
    with_alternatives,
)
from regard.tasks._shared.tokens import raw_text, token_name, vocabulary_sample
from regard.tasks.language.generate import Continuation, TokenIds

NUM_ALTERNATIVES = 8  # alternatives listed per position


def build_inspectable(
    model: Decoder,
    prompt: TokenIds,
    continuation: Continuation,
    *,
    tokenizer: Tokenizer,
    special_tokens: SpecialTokens,
    source: Padded,
    prompt_names: Sequence[str] = (),
    title: str = "",
    remarks: tuple[str, ...] = (),
) -> Inspectable:
    """A prompt, BOS first if texts have one, and its continuation -> axes, tokens with alternatives, and a replay.

    `prompt_names` are the names of the tokens of the text, and `title` is the text, both with the characters that the
    vocabulary lacks.
    """
    first, *rest = prompt
    prompt, prompt_names = tuple(rest), prompt_names[max(0, len(prompt_names) - len(rest)) :]
    new_tokens = (*continuation.tokens, special_tokens.eos) if continuation.finished else continuation.tokens
    row = torch.tensor([[first, *prompt, *new_tokens]], device=source.tokens.device)  # (1 n+1)
    inputs, targets = row[:, :-1], row[0, 1:]
    start_time = time.perf_counter()
    log_probs = log_probabilities(model, source, row)
    target_log_probs = gather_log_probs(log_probs, row)[0]
    seconds = time.perf_counter() - start_time
    alternatives = log_probs[0].topk(min(NUM_ALTERNATIVES, log_probs.shape[-1]), dim=-1).indices
    names = [*(prompt_names or (token_name(token, tokenizer) for token in prompt))]
    names += [token_name(token, tokenizer) for token in new_tokens]
    items = _items(names, (*prompt, *new_tokens), unk=special_tokens.unk)
    decoded_prompt, decoded = tokenizer.decode([(first, *prompt), (first, *prompt, *continuation.tokens)])
    title = title or decoded_prompt
    text = title + decoded.removeprefix(decoded_prompt) if decoded.startswith(decoded_prompt) else decoded
    read = (_item(first, tokenizer), *items[:-1])
    tokens = with_alternatives(
        targets.tolist(), log_probs[0], lambda token, _: token_name(token, tokenizer), count=NUM_ALTERNATIVES
    )
    tokens = tuple(token._replace(text=name) for token, name in zip(tokens, names, strict=True))
    score = float(target_log_probs[len(prompt) :].sum())
    return Inspectable(
        title=title or "a text from nothing",
        axes={"output": Axis(items, "text"), "read": Axis(read, "read", input="read")},
        query_axes={"text": (AxisRef("output"),)},
        key_axes={"text": (AxisRef("read"),)},
        outputs=(Output(text, score=score, rank=score, tokens=tokens),),
        replay=lambda: model(inputs, model.start(source))[0][0],
        predicted_ids=targets,
        seconds=seconds,
        answer_axis="output",
        ablations={"read": partial(ablate_tokens, model, source, inputs, unk=special_tokens.unk)},
        inputs={"read": inputs},
        vocabularies=(vocabulary_sample(tokenizer, (*prompt, *new_tokens)),),
        views=("next_token",),
        remarks=remarks,
        extra={"next_token": _raw_texts(targets.tolist(), alternatives.tolist(), len(prompt), tokenizer)},
    )


def _item(token: int, tokenizer: Tokenizer) -> Item:
    return Item(token_name(token, tokenizer), special=token < len(SPECIAL_TOKENS))


def _items(names: Sequence[str], tokens: Sequence[int], *, unk: int) -> tuple[Item, ...]:
    """Return an item for each token; an unknown token stands for text, so it is not special."""
    return tuple(
        Item(name, special=token < len(SPECIAL_TOKENS) and token != unk)
        for name, token in zip(names, tokens, strict=True)
    )


def _raw_texts(
    tokens: list[int], alternatives: list[list[int]], prompt_length: int, tokenizer: Tokenizer
) -> dict[str, object]:
    """Return the raw text of every token and alternative, with which the page continues from any alternative."""
    return {
        "given": prompt_length,
        "pieces": [raw_text(token, tokenizer) for token in tokens],
        "alternatives": [[raw_text(token, tokenizer) for token in row] for row in alternatives],
    }
