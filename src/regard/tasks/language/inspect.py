"""A text as a language model foretold it: for every token what else might have stood there, and the model run again."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token, Vocabulary
from regard.core.protocols import Decoder, Padded
from regard.core.state_tree import repeat_rows
from regard.data.text.tokenizer import MARKS, Tokenizer
from regard.tasks._shared.teacher_forcing import log_probabilities, picked
from regard.tasks.language.generate import Continuation, Row

ALTERNATIVES = 8  # tokens that are named for each place
WORDS = 120  # of the vocabulary that are shown as points


def show(
    model: Decoder, prompt: Row, text: Continuation, *, tokenizer: Tokenizer, marks: SpecialTokens, source: Padded
) -> Inspectable:
    """A prompt and the tokens behind it -> axes, every token with its alternatives, and the way to run it again."""
    new = (*text.tokens, marks.end) if text.ended else text.tokens
    whole = torch.tensor([[marks.start, *prompt, *new]], device=source.tokens.device)  # (1 n+1)
    begun = time.perf_counter()
    scores = log_probabilities(model, source, whole)
    chosen = picked(scores, whole)[0]
    seconds = time.perf_counter() - begun
    best = scores[0].topk(min(ALTERNATIVES, scores.shape[-1]), dim=-1)
    items = tuple(Item(name_of(token, tokenizer), special=token < len(MARKS)) for token in (*prompt, *new))
    score = float(chosen[len(prompt) :].sum())
    return Inspectable(
        title=tokenizer.decode([prompt])[0] or "a text from nothing",
        axes={
            "output": Axis(items, "text"),
            "read": Axis((Item(tokenizer.name(marks.start), special=True), *items[:-1]), "read", input="read"),
        },
        rows={"text": (AxisRef("output"),)},
        columns={"text": (AxisRef("read"),)},
        outputs=(
            Output(
                tokenizer.decode([(*prompt, *text.tokens)])[0],
                score=score,
                rank=score,
                tokens=_tokens(whole[0, 1:].tolist(), chosen, best.indices, best.values, tokenizer),
            ),
        ),
        replay=lambda: model(whole[:, :-1], model.start(source))[0][0],
        chosen=whole[0, 1:],
        seconds=seconds,
        answered="output",
        without={"read": lambda: without_read(model, whole, source, marks.unknown)},
        inputs={"read": whole[:, :-1]},
        vocabularies=(vocabulary_of(tokenizer, (*prompt, *new)),),
        views=("next_token",),
        extra={"next_token": _raw(whole[0, 1:].tolist(), best.indices.tolist(), len(prompt), tokenizer)},
    )


def name_of(token: int, tokenizer: Tokenizer) -> str:
    """How a token is shown: white space by a letter that can be seen."""
    name = tokenizer.name(token)
    return {"\n": "↵", "\t": "⇥", " ": "␣"}.get(name, name)


def without_read(model: Decoder, whole: Tensor, source: Padded, unknown: int) -> Tensor:
    """Logits (n n v), each token that was read in turn replaced by the unknown token."""
    read = whole[:, :-1]
    changed = read.repeat(read.shape[1], 1).fill_diagonal_(unknown)
    return model(changed, repeat_rows(model.start(source), read.shape[1]))[0]


def _tokens(row: list[int], chosen: Tensor, indices: Tensor, values: Tensor, tokenizer: Tokenizer) -> tuple[Token, ...]:
    return tuple(
        Token(
            name_of(token, tokenizer),
            score,
            tuple((name_of(other, tokenizer), value) for other, value in zip(others, scores, strict=True)),
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
    if token < len(MARKS):
        return ""
    pair = tokenizer.decode([[SpecialTokens.unknown, token]])[0]  # behind another token nothing is stripped
    return pair[1:]


def vocabulary_of(tokenizer: Tokenizer, first: Row) -> Vocabulary:
    """The tokens of the text, then others, taken evenly from the frequent and the rare."""
    others = range(len(MARKS), tokenizer.size, max(1, tokenizer.size // WORDS))
    listed = tuple(dict.fromkeys([*(token for token in first if token >= len(MARKS)), *others]))[:WORDS]
    return Vocabulary("text", tokenizer.size, listed, tuple(name_of(token, tokenizer) for token in listed))
