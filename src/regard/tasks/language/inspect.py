"""A text as a language model foretold it: for every token what else might have stood there, and the model run again."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token, Vocabulary
from regard.core.protocols import Decoder, Padded
from regard.core.state_tree import repeat_rows
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.tasks._shared.teacher_forcing import gather_log_probs, log_probabilities
from regard.tasks.language.generate import Continuation, TokenIds

NUM_ALTERNATIVES = 8  # tokens that are named for each place
MAX_VOCABULARY_POINTS = 120  # of the vocabulary that are shown as points


def build_inspectable(
    model: Decoder,
    prompt: TokenIds,
    continuation: Continuation,
    *,
    tokenizer: Tokenizer,
    special_tokens: SpecialTokens,
    source: Padded,
) -> Inspectable:
    """A prompt and the tokens behind it -> axes, every token with its alternatives, and the way to run it again."""
    new = (*continuation.tokens, special_tokens.eos) if continuation.finished else continuation.tokens
    whole = torch.tensor([[special_tokens.bos, *prompt, *new]], device=source.tokens.device)  # (1 n+1)
    begun = time.perf_counter()
    scores = log_probabilities(model, source, whole)
    chosen = gather_log_probs(scores, whole)[0]
    seconds = time.perf_counter() - begun
    best = scores[0].topk(min(NUM_ALTERNATIVES, scores.shape[-1]), dim=-1)
    items = tuple(
        Item(display_name(token, tokenizer), special=token < len(SPECIAL_TOKENS)) for token in (*prompt, *new)
    )
    score = float(chosen[len(prompt) :].sum())
    return Inspectable(
        title=tokenizer.decode([prompt])[0] or "a text from nothing",
        axes={
            "output": Axis(items, "text"),
            "read": Axis(
                (Item(tokenizer.token_text(special_tokens.bos), special=True), *items[:-1]), "read", input="read"
            ),
        },
        query_axes={"text": (AxisRef("output"),)},
        key_axes={"text": (AxisRef("read"),)},
        outputs=(
            Output(
                tokenizer.decode([(*prompt, *continuation.tokens)])[0],
                score=score,
                rank=score,
                tokens=_tokens(whole[0, 1:].tolist(), chosen, best.indices, best.values, tokenizer),
            ),
        ),
        replay=lambda: model(whole[:, :-1], model.start(source))[0][0],
        predicted_ids=whole[0, 1:],
        seconds=seconds,
        answer_axis="output",
        ablations={"read": lambda: ablate_tokens(model, whole, source, special_tokens.unk)},
        inputs={"read": whole[:, :-1]},
        vocabularies=(sample_vocabulary(tokenizer, (*prompt, *new)),),
        views=("next_token",),
        extra={"next_token": _raw(whole[0, 1:].tolist(), best.indices.tolist(), len(prompt), tokenizer)},
    )


def display_name(token: int, tokenizer: Tokenizer) -> str:
    """How a token is shown: white space by a letter that can be seen."""
    name = tokenizer.token_text(token)
    return {"\n": "↵", "\t": "⇥", " ": "␣"}.get(name, name)


def ablate_tokens(model: Decoder, tokens: Tensor, source: Padded, unk: int) -> Tensor:
    """Logits (n n v), each token that was read in turn replaced by the unknown token."""
    read = tokens[:, :-1]
    changed = read.repeat(read.shape[1], 1).fill_diagonal_(unk)
    return model(changed, repeat_rows(model.start(source), read.shape[1]))[0]


def _tokens(row: list[int], chosen: Tensor, indices: Tensor, values: Tensor, tokenizer: Tokenizer) -> tuple[Token, ...]:
    return tuple(
        Token(
            display_name(token, tokenizer),
            score,
            tuple((display_name(other, tokenizer), value) for other, value in zip(others, scores, strict=True)),
        )
        for token, score, others, scores in zip(row, chosen.tolist(), indices.tolist(), values.tolist(), strict=True)
    )


def _raw(row: list[int], others: list[list[int]], given: int, tokenizer: Tokenizer) -> dict[str, object]:
    """What a page needs to go on from any alternative: the raw text of every token and of what might stand there."""
    return {
        "given": given,  # tokens that were the prompt
        "pieces": [raw_text(token, tokenizer) for token in row],
        "alternatives": [[raw_text(token, tokenizer) for token in some] for some in others],
    }


def raw_text(token: int, tokenizer: Tokenizer) -> str:
    """The characters that a token stands for, with the space before it; none for a mark."""
    if token < len(SPECIAL_TOKENS):
        return ""
    pair = tokenizer.decode([[SpecialTokens.unk, token]])[0]  # behind another token nothing is stripped
    return pair[1:]


def sample_vocabulary(tokenizer: Tokenizer, first_tokens: TokenIds) -> Vocabulary:
    """The tokens of the text, then others, taken evenly from the frequent and the rare."""
    others = range(len(SPECIAL_TOKENS), tokenizer.vocab_size, max(1, tokenizer.vocab_size // MAX_VOCABULARY_POINTS))
    listed = tuple(dict.fromkeys([*(token for token in first_tokens if token >= len(SPECIAL_TOKENS)), *others]))[
        :MAX_VOCABULARY_POINTS
    ]
    return Vocabulary("text", tokenizer.vocab_size, listed, tuple(display_name(token, tokenizer) for token in listed))
