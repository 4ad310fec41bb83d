"""Teacher forcing: losses add up over rows, and log probabilities are those of the model."""

import pytest
import torch

from regard.core.data_specs import Seq2SeqSpec
from regard.data import batching
from regard.data.batching import PairBatch
from regard.models import bahdanau
from regard.tasks._shared.teacher_forcing import (
    ablate_tokens,
    gather_log_probs,
    log_probabilities,
    teacher_forcing_loss,
    with_alternatives,
)

SPEC = Seq2SeqSpec(source_vocab_size=11, target_vocab_size=9, max_length=20)
SOURCES, TARGETS = [[5, 6, 3], [7, 3], [8, 9, 10, 3]], [[2, 4, 5, 3], [2, 6, 7, 8, 4, 3], [2, 3]]


@pytest.fixture
def model():
    return bahdanau.build(bahdanau.TINY, SPEC).eval()


def batch_of(rows):
    return PairBatch(batching.pad([SOURCES[i] for i in rows]), batching.pad([TARGETS[i] for i in rows]))


def test_the_loss_of_a_batch_is_the_sum_over_its_rows(model):
    total = teacher_forcing_loss(model, batch_of([0, 1, 2]), pad=0)
    losses = [teacher_forcing_loss(model, batch_of([i]), pad=0) for i in range(3)]
    assert total.count == sum(loss.count for loss in losses) == 3 + 5 + 1
    torch.testing.assert_close(total.total, sum(loss.total for loss in losses))
    assert teacher_forcing_loss(model, batch_of([0]), pad=0, smoothing=0.1).total != losses[0].total


def test_log_probabilities_sum_to_the_loss(model):
    batch = batch_of([1])
    scores = log_probabilities(model, batch.source, batch.target.tokens)
    assert scores.shape == (1, 5, SPEC.target_vocab_size) and torch.allclose(scores.exp().sum(-1), torch.ones(()))
    log_probs = gather_log_probs(scores, batch.target.tokens)
    torch.testing.assert_close(-log_probs.sum(), teacher_forcing_loss(model, batch, pad=0).total)


def test_tokens_have_the_most_likely_tokens_as_alternatives(model):
    batch = batch_of([1])
    scores = log_probabilities(model, batch.source, batch.target.tokens)[0].detach()
    tokens = with_alternatives(TARGETS[1][1:], scores, lambda token, position: f"{token}@{position}", count=3)
    for position, (token, named) in enumerate(zip(TARGETS[1][1:], tokens, strict=True)):
        assert named.text == f"{token}@{position}" and named.score == pytest.approx(float(scores[position, token]))
        best = scores[position].sort(descending=True)
        assert [name for name, _ in named.alternatives] == [f"{i}@{position}" for i in best.indices[:3].tolist()]
        assert [value for _, value in named.alternatives] == pytest.approx(best.values[:3].tolist())
    (token,) = with_alternatives([4], scores[:1], lambda token, _: str(token), count=50)
    assert len(token.alternatives) == SPEC.target_vocab_size


def test_an_ablated_token_changes_nothing_before_it(model):
    batch = batch_of([1])
    read = batch.target.tokens[:, :-1]
    full, ablated = model(read, model.start(batch.source))[0][0], ablate_tokens(model, batch.source, read, unk=1)
    for position, logits in enumerate(ablated):
        torch.testing.assert_close(logits[:position], full[:position])
        assert not torch.allclose(logits[position], full[position])
