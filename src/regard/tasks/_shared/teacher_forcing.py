"""Teacher forcing: the model predicts each token of a known sequence from the true tokens before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Output, Token
from regard.core.progress import track
from regard.core.protocols import Decoder, Hypothesis, Loss
from regard.core.state_tree import map_tensors, repeat_rows
from regard.data import batching
from regard.data.batching import PairBatch
from regard.data.text.pair_corpus import PairCorpus
from regard.data.text.tokenizer import Tokenizer

NUM_ALTERNATIVES = 5  # most likely tokens listed for each position of an output


def teacher_forcing_loss(model: Decoder, batch: PairBatch, *, pad: int, smoothing: float = 0.0) -> Loss:
    """Return the cross entropy of a batch, summed over its target tokens and EOS; padding is not counted."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    is_token = labels != pad
    total = model.readout.loss(features[is_token], labels[is_token], smoothing=smoothing)
    return Loss(total, int((batch.target.lengths - 1).sum()))


def loss_per_token(
    model: Decoder, corpus: PairCorpus, special_tokens: SpecialTokens, *, max_length: int, budget: int
) -> float:
    """Return the mean cross entropy of the target tokens of a corpus; pairs that are too long are skipped."""
    lengths = corpus.lengths()
    selected = batching.select_by_length(*lengths, max_length=max_length, budget=budget).selected
    batches = batching.epoch_batches(*lengths, candidates=selected, budget=budget, seed=0, epoch=0)
    total, count = 0.0, 0
    with eval_mode(model) as device:
        for examples in track(batches, total=len(batches)):
            batch = map_tensors(corpus.batch(examples, special_tokens), lambda x: x.to(device))
            loss = teacher_forcing_loss(model, batch, pad=special_tokens.pad)
            total, count = total + loss.total.item(), count + loss.count
    return total / count


def log_probabilities(model: Decoder, source: Any, tokens: Tensor) -> Tensor:
    """Tokens (b t+1), starting with BOS -> log p (b t v) of the token at each position after the first."""
    logits, _ = model(tokens[:, :-1], model.start(source))
    return logits.float().log_softmax(dim=-1)


def gather_log_probs(scores: Tensor, tokens: Tensor) -> Tensor:
    """Log p (b t v) and tokens (b t+1) -> log p (b t) of each token except the first."""
    return scores.gather(-1, tokens[:, 1:, None])[..., 0]


def with_alternatives(
    tokens: Sequence[int], scores: Tensor, token_name: Callable[[int, int], str], *, count: int = NUM_ALTERNATIVES
) -> tuple[Token, ...]:
    """Tokens (n) and log p (n v) -> each token with its log p and the `count` most likely tokens at its position.

    `token_name` maps a token and its position to a name.
    """
    best = scores.topk(min(count, scores.shape[-1]), dim=-1)
    rows = zip(tokens, best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(
        Token(
            token_name(token, position),
            float(scores[position, token]),
            tuple(
                (token_name(candidate, position), value) for candidate, value in zip(candidates, values, strict=True)
            ),
        )
        for position, (token, candidates, values) in enumerate(rows)
    )


def hypotheses_to_outputs(
    model: Decoder,
    source: Any,
    hypotheses: Sequence[Hypothesis],
    *,
    tokenizer: Tokenizer,
    special_tokens: SpecialTokens,
    device: torch.device,
) -> tuple[Output, ...]:
    """Return the hypotheses of one source with the log p of every token and its alternatives."""
    rows = [[special_tokens.bos, *hypothesis.tokens, special_tokens.eos] for hypothesis in hypotheses]
    tokens = batching.pad(rows, special_tokens.pad).tokens.to(device)
    logits, _ = model(tokens[:, :-1], repeat_rows(model.start(source), len(rows)))
    scores = logits.float().log_softmax(dim=-1)  # (n t v)
    outputs = []
    for row, hypothesis, row_scores in zip(rows, hypotheses, scores, strict=True):
        named = with_alternatives(row[1:], row_scores[: len(row) - 1], lambda token, _: tokenizer.token_text(token))
        text = tokenizer.decode([hypothesis.tokens])[0]
        outputs.append(Output(text, hypothesis.score, hypothesis.rank_score, named))
    return tuple(outputs)


def ablate_tokens(model: Decoder, source: Any, tokens: Tensor, *, unk: int) -> Tensor:
    """Decoder inputs (1 n) -> logits (n n v) with each input token in turn replaced by the unknown token."""
    changed = tokens.repeat(tokens.shape[1], 1).fill_diagonal_(unk)
    return model(changed, repeat_rows(model.start(source), tokens.shape[1]))[0]
