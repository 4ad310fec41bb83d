"""Teacher forcing: a model is given the true tokens before each one and asked for the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Token
from regard.core.progress import track
from regard.core.protocols import Decoder, Loss
from regard.core.state_tree import map_tensors, repeat_rows
from regard.data import batching
from regard.data.batching import PairBatch
from regard.data.text.pair_corpus import PairCorpus

NUM_ALTERNATIVES = 5  # tokens that are named for each place of an output


def teacher_forcing_loss(model: Decoder, batch: PairBatch, *, pad: int, smoothing: float = 0.0) -> Loss:
    """A batch -> the cross entropy of its target tokens and end marks, summed; padding is not counted."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    real = labels != pad
    total = model.readout.loss(features[real], labels[real], smoothing=smoothing)
    return Loss(total, int((batch.target.lengths - 1).sum()))


def loss_per_token(
    model: Decoder, corpus: PairCorpus, special_tokens: SpecialTokens, *, max_length: int, budget: int
) -> float:
    """Encoded pairs -> the mean cross entropy of their target tokens; pairs that are too long are left out."""
    lengths = corpus.lengths()
    kept = batching.select_by_length(*lengths, max_length=max_length, budget=budget).selected
    plan = batching.epoch_batches(*lengths, candidates=kept, budget=budget, seed=0, epoch=0)
    total, count = 0.0, 0
    with eval_mode(model) as device:
        for examples in track(plan, total=len(plan)):
            batch = map_tensors(corpus.batch(examples, special_tokens), lambda x: x.to(device))
            loss = teacher_forcing_loss(model, batch, pad=special_tokens.pad)
            total, count = total + loss.total.item(), count + loss.count
    return total / count


def log_probabilities(model: Decoder, source: Any, tokens: Tensor) -> Tensor:
    """Tokens (b t+1), the first of them given -> log p (b t v) of what comes at each place after it."""
    logits, _ = model(tokens[:, :-1], model.start(source))
    return logits.float().log_softmax(dim=-1)


def gather_log_probs(scores: Tensor, tokens: Tensor) -> Tensor:
    """Log p (b t v) and tokens (b t+1) -> log p (b t) of each token but the first."""
    return scores.gather(-1, tokens[:, 1:, None])[..., 0]


def with_alternatives(
    tokens: Sequence[int], scores: Tensor, token_name: Callable[[int, int], str], *, count: int = NUM_ALTERNATIVES
) -> tuple[Token, ...]:
    """Tokens (n) and log p (n v) -> each with its log p and the likeliest others; `name` is given token and place."""
    best = scores.topk(min(count, scores.shape[-1]), dim=-1)
    rows = zip(tokens, best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(
        Token(
            token_name(token, place),
            float(scores[place, token]),
            tuple((token_name(other, place), value) for other, value in zip(others, values, strict=True)),
        )
        for place, (token, others, values) in enumerate(rows)
    )


def ablate_tokens(model: Decoder, source: Any, tokens: Tensor, *, unk: int) -> Tensor:
    """Tokens (1 n) that a decoder read -> logits (n n v), each of them in turn replaced by the unknown token."""
    changed = tokens.repeat(tokens.shape[1], 1).fill_diagonal_(unk)
    return model(changed, repeat_rows(model.start(source), tokens.shape[1]))[0]
