"""Attention of the captioner: outputs and parts of the loss."""

import pytest
import torch
from torch import nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.normalizers import SoftOrHard
from regard.attention.policy_gradient import MovingAverage
from regard.layers.readout import Readout
from regard.models._caption_attention import (
    AttentionTrace,
    CaptionTargets,
    HardAttention,
    MeanPooling,
    SoftAttention,
    with_attention_weights,
)


def targets(batch_size=2, steps=3, *, smoothing=0.0):
    torch.manual_seed(1)
    mask = torch.tensor([[True, True, True], [True, True, False]])[:batch_size, :steps]
    return CaptionTargets(
        torch.randn(batch_size, steps, 4), torch.randint(0, 5, (batch_size, steps)), mask, Readout(4, 5), smoothing
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_total_loss_is_the_sum_of_token_losses(smoothing):
    captions = targets(smoothing=smoothing)
    assert captions.token_losses().sum().item() == pytest.approx(captions.total_loss().item(), rel=1e-5)
    assert captions.token_losses()[1, 2] == 0


def test_attention_output_with_weights():
    soft = SoftAttention(Attend(scores.build("additive", 6)), nn.Linear(4, 6), coverage_weight=1.0)
    cells, query = torch.randn(2, 5, 4), torch.randn(4, 6)  # two captions per image
    memory = soft.project_kv(cells)
    context = soft(query, memory)
    with_weights = soft(query, with_attention_weights(memory))
    assert context.shape == (4, 4) and torch.allclose(with_weights[:, :4], context, atol=1e-6)
    weights = with_weights[:, 4:]
    assert torch.allclose(weights.sum(dim=1), torch.ones(4))
    assert torch.allclose((weights[:2, :, None] * cells[0]).sum(dim=1), context[:2], atol=1e-6)
    assert soft.training_memory(memory).v.shape[-1] == 9
    soft.coverage = 0.0  # the loss does not need the weights
    assert soft.training_memory(memory) is memory


def test_the_policy_term_covers_sampled_steps_only():
    """Steps at which soft attention replaced the sample have no REINFORCE term."""
    hard = HardAttention(
        Attend(scores.build("dot", 4), normalizer=SoftOrHard(0.5)),
        nn.Linear(4, 4),
        baseline=MovingAverage(3),
        policy_weight=1.0,
        entropy_weight=0.5,
    )
    memory = hard.project_kv(torch.randn(2, 5, 4))
    trace = AttentionTrace(torch.randn(2, 3, 4), torch.full((2, 3, 5), 0.2))
    parts = hard.losses(targets(), trace, memory)
    assert parts["choices"] == 0 and parts["entropy"] < 0
    sampled_trace = trace._replace(weights=nn.functional.one_hot(torch.zeros(2, 3, dtype=torch.long), 5).float())
    assert hard.losses(targets(), sampled_trace, memory)["choices"] != 0
    assert hard.baseline.average.abs().sum() > 0


def test_mean_pooling():
    cells = torch.randn(2, 5, 4)
    pooling = MeanPooling()
    assert torch.allclose(
        pooling(torch.zeros(4, 9), pooling.project_kv(cells)), cells.mean(dim=1).repeat_interleave(2, dim=0)
    )
