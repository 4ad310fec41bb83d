"""Texts through a language model: -log p of every token, and how a text goes on, both in windows of the context.

A text longer than the context is scored in windows that overlap by half. It goes on in the same way: when the context
is full, its last half is read anew, behind a start mark as in training, and the text goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.progress import track
from regard.core.protocols import Decoder, Padded
from regard.core.seed import mix
from regard.core.sizes import Tokens
from regard.core.tree import join
from regard.data.corpus import Tokens as TokenArray
from regard.data.stream import windows
from regard.decoding import Decoding, optimised
from regard.tasks._forcing import log_probabilities, picked

LOGITS = 2**24  # numbers that are computed at once: 64 megabytes
READ = 2**14  # tokens that are read at once: the features inside a model are many times as many

Row = tuple[int, ...]


class Continuation(NamedTuple):
    """New tokens behind a prompt."""

    prompt: int  # its number
    tokens: Row
    ended: bool = False  # by an end mark, not by the limit


def no_source(rows: int, device: torch.device) -> Padded:
    """The source of a language model, which has none: only the number of rows counts."""
    lengths = torch.zeros(rows, dtype=torch.long, device=device)
    return Padded(lengths[:, None][:, :0], lengths)


def nats(model: Decoder, tokens: TokenArray, sizes: Tokens, device: torch.device) -> NDArray[np.float64]:
    """Tokens (n) of a text -> -log p of each (n); a long text in windows that overlap by half."""
    values = np.zeros(len(tokens))
    parts = windows(len(tokens), sizes.longest)
    rows = max(1, min(READ, LOGITS // sizes.size) // sizes.longest)
    for batch in track([parts[i : i + rows] for i in range(0, len(parts), rows)], total=len(parts), size=len):
        length = max(part.end - part.begin for part in batch)
        read = torch.full((len(batch), length + 1), sizes.marks.start)
        for row, part in zip(read, batch, strict=True):
            row[1 : part.end - part.begin + 1] = torch.from_numpy(tokens[part.begin : part.end].astype(np.int64))
        read = read.to(device)
        scores = picked(log_probabilities(model, no_source(len(batch), device), read), read).double().cpu().numpy()
        for row, part in zip(scores, batch, strict=True):
            values[part.counted : part.end] = -row[part.counted - part.begin : part.end - part.begin]
    return values


def go_on(
    model: Decoder, prompts: Sequence[Row], *, count: int, sizes: Tokens, decoding: Decoding, device: torch.device
) -> list[list[Continuation]]:
    """Prompts -> for each its continuations by up to `count` tokens, as many as the decoder gives."""
    fast = optimised(model)
    decoding = decoding.changed(forbid=(*decoding.config.forbid, sizes.marks.unknown))
    texts = [Continuation(number, ()) for number in range(len(prompts))]
    ready: list[list[Continuation]] = [[] for _ in prompts]
    while texts:
        seen = [_window((*prompts[text.prompt], *text.tokens), sizes.longest) for text in texts]
        # Before the window stands a start mark, and the last token is read too, to know whether the text ends there.
        limits = [min(count - len(a.tokens), sizes.longest - 1 - len(b)) for a, b in zip(texts, seen, strict=True)]
        pieces = _pieces(fast, seen, limits, sizes=sizes, decoding=decoding, device=device)
        longer = [
            text._replace(tokens=text.tokens + piece, ended=len(piece) < limit)
            for text, limit, some in zip(texts, limits, pieces, strict=True)
            for piece in some
        ]
        texts = [text for text in longer if not text.ended and len(text.tokens) < count]
        for text in longer:
            if text.ended or len(text.tokens) == count:
                ready[text.prompt].append(text)
        decoding = _single(decoding)
    return ready


def _window(tokens: Row, longest: int) -> Row:
    """What the model sees of a text before it goes on: all, or the last half of the context where that is full."""
    return tokens if len(tokens) < longest - 1 else tokens[len(tokens) - (longest - 1) // 2 :]


def _single(decoding: Decoding) -> Decoding:
    """The decoder for a text that has begun: one continuation of each, with draws of its own."""
    changes = {name: 1 for name in ("samples", "nbest") if decoding.has(name)}
    seed = {"seed": mix(decoding.config.seed)} if decoding.has("seed") else {}
    return decoding.changed(**changes, **seed)


def _pieces(
    model: Decoder,
    rows: Sequence[Row],
    limits: Sequence[int],
    *,
    sizes: Tokens,
    decoding: Decoding,
    device: torch.device,
) -> list[list[Row]]:
    """What follows each row, up to its limit."""
    states = []
    for row in rows:
        state = model.start(no_source(1, device))
        if row:
            _, state = model.features(torch.tensor([[sizes.marks.start, *row[:-1]]], device=device), state)
        states.append(state)
    last = torch.tensor([row[-1] if row else sizes.marks.start for row in rows], device=device)
    most = torch.tensor(limits, device=device)
    hypotheses = decoding(model, reduce(join, states), marks=sizes.marks, limits=most, first=last)
    return [[hypothesis.tokens for hypothesis in some] for some in hypotheses]
