"""Texts through a language model: -log p of every token, and how a text goes on, both in windows of the context.

A text longer than the context is scored in windows that overlap by half. It goes on in the same way: when the context
is full, its last half is read anew, behind a start mark as in training, and the text goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import LanguageSpec
from regard.core.progress import track
from regard.core.protocols import Decoder, Grammar, Padded, State
from regard.core.seed import combine_seeds
from regard.core.state_tree import concat_states
from regard.data.text.pair_corpus import TokenArray
from regard.data.text.token_stream import evaluation_windows
from regard.decoding.constraints import forbid_repeated_ngrams
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.tasks._shared.teacher_forcing import gather_log_probs, log_probabilities

MAX_LOGITS = 2**24  # numbers that are computed at once: 64 megabytes
MAX_BATCH_TOKENS = 2**14  # tokens that are read at once: the features inside a model are many times as many

TokenIds = tuple[int, ...]


class Continuation(NamedTuple):
    """New tokens behind a prompt."""

    prompt_index: int  # its number
    tokens: TokenIds
    sample_index: int  # which decides what it draws, and is its own whatever becomes of other texts
    finished: bool = False  # by an end mark, not by the limit

    def extend(self, piece: TokenIds, limit: int, *, branch: tuple[int, int]) -> Continuation:
        """The same with a piece behind it, the n-th of so many that were drawn."""
        place, count = branch
        return Continuation(
            self.prompt_index, self.tokens + piece, self.sample_index * count + place, len(piece) < limit
        )


class PromptWindows(NamedTuple):
    """Windows of texts that go on."""

    tokens: list[TokenIds]
    limits: list[int]
    sample_indices: list[int]


def empty_source(batch_size: int, device: torch.device) -> Padded:
    """The source of a language model, which has none: only the number of rows counts."""
    lengths = torch.zeros(batch_size, dtype=torch.long, device=device)
    return Padded(lengths[:, None][:, :0], lengths)


def token_nats(
    model: Decoder, texts: Sequence[TokenArray], sizes: LanguageSpec, device: torch.device
) -> list[NDArray[np.float64]]:
    """Texts, each tokens (n) -> of each -log p of its tokens (n); a long text in windows that overlap by half."""
    values = [np.zeros(len(tokens)) for tokens in texts]
    parts = [
        (number, part)
        for number, tokens in enumerate(texts)
        for part in evaluation_windows(len(tokens), sizes.max_length)
    ]
    parts.sort(key=lambda of: of[1].stop - of[1].start)
    rows = max(1, min(MAX_BATCH_TOKENS, MAX_LOGITS // sizes.vocab_size) // sizes.max_length)
    for batch in track([parts[i : i + rows] for i in range(0, len(parts), rows)], total=len(parts), size=len):
        length = max(part.stop - part.start for _, part in batch)
        read = torch.full((len(batch), length + 1), sizes.special_tokens.bos)
        for row, (number, part) in zip(read, batch, strict=True):
            seen = texts[number][part.start : part.stop].astype(np.int64)
            row[1 : len(seen) + 1] = torch.from_numpy(seen)
        read = read.to(device)
        scores = (
            gather_log_probs(log_probabilities(model, empty_source(len(batch), device), read), read)
            .double()
            .cpu()
            .numpy()
        )
        for row, (number, part) in zip(scores, batch, strict=True):
            values[number][part.scored_from : part.stop] = -row[part.scored_from - part.start : part.stop - part.start]
    return values


def generate(
    model: Decoder,
    prompts: Sequence[TokenIds],
    *,
    count: int,
    sizes: LanguageSpec,
    decoding: DecodingStrategy,
    device: torch.device,
) -> list[list[Continuation]]:
    """Prompts -> for each its continuations by up to `count` tokens, as many as the decoder gives."""
    fast = optimize_for_decoding(model)
    decoding = decoding.with_settings(forbid=(*decoding.config.forbid, sizes.special_tokens.unk))
    texts = [Continuation(place, (), number) for place, number in enumerate(decoding.sample_indices(len(prompts)))]
    ready: list[list[Continuation]] = [[] for _ in prompts]
    while texts:
        longer: list[Continuation] = []
        for some, search, grammar in _searches(texts, decoding, sizes):
            seen = [_window((*prompts[text.prompt_index], *text.tokens), sizes.max_length) for text in some]
            # Before the window stands a start mark; the last token is read too, to know whether the text ends there.
            limits = [
                min(count - len(a.tokens), sizes.max_length - 1 - len(b)) for a, b in zip(some, seen, strict=True)
            ]
            own = PromptWindows(seen, limits, [text.sample_index for text in some])
            pieces = _pieces(fast, own, search, grammar, sizes=sizes, device=device)
            for text, limit, found in zip(some, limits, pieces, strict=True):
                longer += [text.extend(piece, limit, branch=(place, len(found))) for place, piece in enumerate(found)]
        texts = sorted(
            (text for text in longer if not text.finished and len(text.tokens) < count),
            key=lambda text: text.sample_index,
        )
        for text in longer:
            if text.finished or len(text.tokens) == count:
                ready[text.prompt_index].append(text)
        decoding = _single(decoding)
    return ready


def _searches(
    texts: Sequence[Continuation], decoding: DecodingStrategy, sizes: LanguageSpec
) -> Iterator[tuple[list[Continuation], DecodingStrategy, Grammar | None]]:
    """Texts that are searched for together, and how: what is asked of a text is asked of all its windows together."""
    least, size = decoding.config.min_length, decoding.config.no_repeat
    groups: dict[tuple[int, TokenIds], list[Continuation]] = {}
    for text in texts:
        groups.setdefault((max(0, least - len(text.tokens)), text.tokens if size else ()), []).append(text)
    for (rest, before), some in groups.items():
        yield some, decoding.with_settings(min_length=rest), NoRepeatGrammar(before, size, sizes) if before else None


class NoRepeatGrammar(NamedTuple):
    """A grammar: no n-gram comes again that came in an earlier window."""

    previous_tokens: TokenIds  # tokens of earlier windows
    ngram_size: int  # tokens of an n-gram
    sizes: LanguageSpec

    def allowed(self, history: Tensor) -> Tensor:
        """Tokens (r t) of this window -> (r v): what may come next."""
        before = torch.tensor(self.previous_tokens, device=history.device).expand(len(history), -1)
        scores = torch.zeros(len(history), self.sizes.vocab_size, device=history.device)
        forbid_repeated_ngrams(
            scores,
            torch.cat([before, history], dim=1),
            ngram_size=self.ngram_size,
            dummy_token=self.sizes.special_tokens.pad,
        )
        return scores == 0


def _window(tokens: TokenIds, longest: int) -> TokenIds:
    """What the model sees of a text before it goes on: all, or the last half of the context where that is full."""
    return tokens if len(tokens) < longest - 1 else tokens[len(tokens) - (longest - 1) // 2 :]


def _single(decoding: DecodingStrategy) -> DecodingStrategy:
    """The decoder for a text that has begun: one continuation of each, with draws of its own."""
    changes = {name: 1 for name in ("num_samples", "nbest") if decoding.has_setting(name)}
    seed = {"seed": combine_seeds(decoding.config.seed)} if decoding.has_setting("seed") else {}
    return decoding.with_settings(**changes, **seed)


def _pieces(
    model: Decoder,
    asked: PromptWindows,
    decoding: DecodingStrategy,
    grammar: Grammar | None,
    *,
    sizes: LanguageSpec,
    device: torch.device,
) -> list[list[TokenIds]]:
    """What follows each row, up to its limit."""
    rows, groups = asked.tokens, list(_alike(asked.tokens))
    order = [place for places in groups for place in places]
    state = reduce(concat_states, [_read(model, [rows[place] for place in places], sizes, device) for places in groups])
    last = torch.tensor(
        [rows[place][-1] if rows[place] else sizes.special_tokens.bos for place in order], device=device
    )
    limits, numbers = (torch.tensor(each, device=device)[order] for each in (asked.limits, asked.sample_indices))
    found = decoding(
        model,
        state,
        special_tokens=sizes.special_tokens,
        limits=limits,
        first_input=last,
        sample_indices=numbers,
        grammar=grammar,
    )
    pieces = dict(zip(order, ([hypothesis.tokens for hypothesis in some] for some in found), strict=True))
    return [pieces[place] for place in range(len(rows))]


def _alike(rows: Sequence[TokenIds]) -> Iterator[list[int]]:
    """The places of rows of one length, which are read together, as many as READ allows."""
    alike: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(len(row), []).append(place)
    for length, places in alike.items():
        most = max(1, MAX_BATCH_TOKENS // max(1, length))
        yield from (places[low : low + most] for low in range(0, len(places), most))


def _read(model: Decoder, rows: Sequence[TokenIds], sizes: LanguageSpec, device: torch.device) -> State:
    """The state of rows of one length before their last token."""
    state = model.start(empty_source(len(rows), device))
    if rows[0]:
        _, state = model.features(
            torch.tensor([[sizes.special_tokens.bos, *row[:-1]] for row in rows], device=device), state
        )
    return state
