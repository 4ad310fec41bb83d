"""Scoring and generation with a language model, both in windows of the context length.

A text longer than the context is scored in windows that overlap by half. Generation works in the same way: when the
context is full, its last half is encoded again, after a BOS token as in training, and generation continues from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

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

MAX_LOGITS = 2**24  # logits per batch: 64 megabytes
MAX_BATCH_TOKENS = 2**14  # input tokens per batch: the features inside a model are many times as large

TokenIds = tuple[int, ...]


class Continuation(NamedTuple):
    """New tokens after a prompt."""

    prompt_index: int
    tokens: TokenIds
    sample_index: int  # seeds the samples of this text, independently of the other texts
    finished: bool = False  # by an EOS token, not by the length limit

    def extend(self, new_tokens: TokenIds, limit: int, *, branch: tuple[int, int]) -> Continuation:
        """Return this continuation with new tokens appended; `branch` is (index, number of samples)."""
        index, count = branch
        return Continuation(
            self.prompt_index, self.tokens + new_tokens, self.sample_index * count + index, len(new_tokens) < limit
        )


class PromptWindows(NamedTuple):
    """The last windows of texts to be continued."""

    tokens: list[TokenIds]
    limits: list[int]
    sample_indices: list[int]


def empty_source(batch_size: int, device: torch.device) -> Padded:
    """Return the source of a language model: empty sequences that only define the batch size."""
    lengths = torch.zeros(batch_size, dtype=torch.long, device=device)
    return Padded(lengths[:, None][:, :0], lengths)


def start_tokens(sizes: LanguageSpec) -> TokenIds:
    """Return the tokens before every text: BOS, or none."""
    return (sizes.special_tokens.bos,) if sizes.start_token else ()


def token_nats(
    model: Decoder, texts: Sequence[TokenArray], sizes: LanguageSpec, device: torch.device
) -> list[NDArray[np.float64]]:
    """Token arrays (n) -> -log p of their tokens (n); long texts are scored in windows that overlap by half.

    Without a BOS token the first token of a text is not predicted; it counts 0.
    """
    before = len(start_tokens(sizes))
    nats = [np.zeros(len(tokens)) for tokens in texts]
    windows = [
        (text_index, window)
        for text_index, tokens in enumerate(texts)
        for window in evaluation_windows(len(tokens), sizes.max_length)
    ]
    windows.sort(key=lambda pair: pair[1].stop - pair[1].start)
    batch_size = max(1, min(MAX_BATCH_TOKENS, MAX_LOGITS // sizes.vocab_size) // sizes.max_length)
    batches = [windows[i : i + batch_size] for i in range(0, len(windows), batch_size)]
    for batch in track(batches, total=len(windows), size=len):
        length = max(window.stop - window.start for _, window in batch)
        tokens = torch.full((len(batch), length + before), sizes.special_tokens.bos)
        for row, (text_index, window) in zip(tokens, batch, strict=True):
            crop = texts[text_index][window.start : window.stop].astype(np.int64)
            row[before : len(crop) + before] = torch.from_numpy(crop)
        if tokens.shape[1] < 2:  # a single token without BOS
            continue
        tokens = tokens.to(device)
        log_probs = gather_log_probs(log_probabilities(model, empty_source(len(batch), device), tokens), tokens)
        log_probs = pad(log_probs, (1 - before, 0))
        for row, (text_index, window) in zip(log_probs.double().cpu().numpy(), batch, strict=True):
            scored = row[window.scored_from - window.start : window.stop - window.start]
            nats[text_index][window.scored_from : window.stop] = -scored
    return nats


def generate(
    model: Decoder,
    prompts: Sequence[TokenIds],
    *,
    count: int,
    sizes: LanguageSpec,
    decoding: DecodingStrategy,
    device: torch.device,
) -> list[list[Continuation]]:
    """Prompts -> their continuations by up to `count` tokens, as many per prompt as the decoding strategy returns."""
    decoder = optimize_for_decoding(model)
    decoding = decoding.with_constraints(
        suppress_tokens=(*decoding.constraints.suppress_tokens, sizes.special_tokens.unk)
    )
    active = [Continuation(index, (), sample) for index, sample in enumerate(decoding.sample_indices(len(prompts)))]
    done: list[list[Continuation]] = [[] for _ in prompts]
    while active:
        extended: list[Continuation] = []
        for group, search, grammar in _searches(active, decoding, sizes):
            windows = [context_window((*prompts[text.prompt_index], *text.tokens), sizes.max_length) for text in group]
            # A BOS token precedes the window; the last token is an input too, to predict whether the text ends there.
            limits = [
                min(count - len(text.tokens), sizes.max_length - 1 - len(window))
                for text, window in zip(group, windows, strict=True)
            ]
            inputs = PromptWindows(windows, limits, [text.sample_index for text in group])
            outputs = _decode_windows(decoder, inputs, search, grammar, sizes=sizes, device=device)
            for text, limit, samples in zip(group, limits, outputs, strict=True):
                extended += [
                    text.extend(tokens, limit, branch=(index, len(samples))) for index, tokens in enumerate(samples)
                ]
        active = sorted(
            (text for text in extended if not text.finished and len(text.tokens) < count),
            key=lambda text: text.sample_index,
        )
        for text in extended:
            if text.finished or len(text.tokens) == count:
                done[text.prompt_index].append(text)
        decoding = _single_output(decoding)
    return done


def _searches(
    texts: Sequence[Continuation], decoding: DecodingStrategy, sizes: LanguageSpec
) -> Iterator[tuple[list[Continuation], DecodingStrategy, Grammar | None]]:
    """Group the texts that can be decoded together, with the strategy and grammar of each group.

    `min_length` and `no_repeat_ngram_size` hold for the entire text, not for each window.
    """
    min_length, ngram_size = decoding.constraints.min_length, decoding.constraints.no_repeat_ngram_size
    groups: dict[tuple[int, TokenIds], list[Continuation]] = {}
    for text in texts:
        remaining = max(0, min_length - len(text.tokens))
        groups.setdefault((remaining, text.tokens if ngram_size else ()), []).append(text)
    for (remaining, previous), group in groups.items():
        grammar = NoRepeatGrammar(previous, ngram_size, sizes) if previous else None
        yield group, decoding.with_constraints(min_length=remaining), grammar


class NoRepeatGrammar(NamedTuple):
    """Grammar that forbids n-grams which occurred in an earlier window."""

    previous_tokens: TokenIds  # tokens of earlier windows
    ngram_size: int
    sizes: LanguageSpec

    def allowed(self, history: Tensor) -> Tensor:
        """Tokens (r t) of this window -> (r v) True for the tokens that may come next."""
        previous = torch.tensor(self.previous_tokens, device=history.device).expand(len(history), -1)
        scores = torch.zeros(len(history), self.sizes.vocab_size, device=history.device)
        forbid_repeated_ngrams(
            scores,
            torch.cat([previous, history], dim=1),
            ngram_size=self.ngram_size,
            dummy_token=self.sizes.special_tokens.pad,
        )
        return scores == 0


def context_window(tokens: TokenIds, max_length: int) -> TokenIds:
    """Return the tokens that the model attends to: all, or the last half of the context if the text fills it."""
    return tokens if len(tokens) < max_length - 1 else tokens[len(tokens) - (max_length - 1) // 2 :]


def _single_output(decoding: DecodingStrategy) -> DecodingStrategy:
    """Return the strategy for a text in progress: one continuation per text, with a new seed."""
    changes = {name: 1 for name in ("num_samples", "nbest") if decoding.has_setting(name)}
    seed = {"seed": combine_seeds(decoding.config.seed)} if decoding.has_setting("seed") else {}
    return decoding.with_settings(**changes, **seed)


def _decode_windows(
    model: Decoder,
    inputs: PromptWindows,
    decoding: DecodingStrategy,
    grammar: Grammar | None,
    *,
    sizes: LanguageSpec,
    device: torch.device,
) -> list[list[TokenIds]]:
    """Windows -> the sampled continuations of each window, up to its limit."""
    windows, groups = inputs.tokens, list(_equal_length_groups(inputs.tokens))
    order = [index for indices in groups for index in indices]
    states = [_encode_windows(model, [windows[index] for index in indices], sizes, device) for indices in groups]
    last_tokens = [windows[index][-1] if windows[index] else sizes.special_tokens.bos for index in order]
    limits, sample_indices = (
        torch.tensor(values, device=device)[order] for values in (inputs.limits, inputs.sample_indices)
    )
    hypotheses = decoding(
        model,
        reduce(concat_states, states),
        special_tokens=sizes.special_tokens,
        limits=limits,
        first_input=torch.tensor(last_tokens, device=device),
        sample_indices=sample_indices,
        grammar=grammar,
    )
    outputs = dict(zip(order, ([hypothesis.tokens for hypothesis in row] for row in hypotheses), strict=True))
    return [outputs[index] for index in range(len(windows))]


def _equal_length_groups(rows: Sequence[TokenIds]) -> Iterator[list[int]]:
    """Yield indices of rows of equal length, which are encoded together, up to MAX_BATCH_TOKENS."""
    by_length: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        by_length.setdefault(len(row), []).append(index)
    for length, indices in by_length.items():
        batch_size = max(1, MAX_BATCH_TOKENS // max(1, length))
        yield from (indices[low : low + batch_size] for low in range(0, len(indices), batch_size))


def _encode_windows(model: Decoder, windows: Sequence[TokenIds], sizes: LanguageSpec, device: torch.device) -> State:
    """Windows of equal length -> the state before their last token."""
    state = model.start(empty_source(len(windows), device))
    if windows[0][1 - len(start_tokens(sizes)) :]:
        tokens = torch.tensor([[*start_tokens(sizes), *window[:-1]] for window in windows], device=device)
        _, state = model.features(tokens, state)
    return state
