"""Ways of looking: what each adds to the loss."""

import pytest
import torch
from torch import nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.normalizers import SoftOrHard
from regard.attention.reinforce import MovingAverage
from regard.layers.readout import Readout
from regard.models._caption_attention import (
    AttentionTrace,
    CaptionTargets,
    HardAttention,
    MeanPooling,
    SoftAttention,
    with_attention_weights,
)


def told(rows=2, steps=3, *, smoothing=0.0):
    torch.manual_seed(1)
    there = torch.tensor([[True, True, True], [True, True, False]])[:rows, :steps]
    return CaptionTargets(
        torch.randn(rows, steps, 4), torch.randint(0, 5, (rows, steps)), there, Readout(4, 5), smoothing
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_total_is_the_sum_of_each(smoothing):
    captions = told(smoothing=smoothing)
    assert captions.token_losses().sum().item() == pytest.approx(captions.total_loss().item(), rel=1e-5)
    assert captions.token_losses()[1, 2] == 0


def test_what_is_seen_comes_with_its_weights_over_a_traced_memory():
    soft = SoftAttention(Attend(scores.build("additive", 6)), nn.Linear(4, 6), coverage_weight=1.0)
    cells, query = torch.randn(2, 5, 4), torch.randn(4, 6)  # two captions of each image
    memory = soft.project_kv(cells)
    seen = soft(query, memory)
    both = soft(query, with_attention_weights(memory))
    assert seen.shape == (4, 4) and torch.allclose(both[:, :4], seen, atol=1e-6)
    weights = both[:, 4:]
    assert torch.allclose(weights.sum(dim=1), torch.ones(4))
    assert torch.allclose((weights[:2, :, None] * cells[0]).sum(dim=1), seen[:2], atol=1e-6)
    assert soft.training_memory(memory).v.shape[-1] == 9
    soft.coverage = 0.0  # nobody asks for the weights
    assert soft.training_memory(memory) is memory


def test_only_what_was_chosen_is_answered_for():
    """Where the expectation stood in for a choice, the score function term has nothing."""
    hard = HardAttention(
        Attend(scores.build("dot", 4), normalizer=SoftOrHard(0.5)),
        nn.Linear(4, 4),
        baseline=MovingAverage(3),
        policy_weight=1.0,
        entropy_weight=0.5,
    )
    memory = hard.project_kv(torch.randn(2, 5, 4))
    walk = AttentionTrace(torch.randn(2, 3, 4), torch.full((2, 3, 5), 0.2))
    parts = hard.losses(told(), walk, memory)
    assert parts["choices"] == 0 and parts["entropy"] < 0
    chosen = walk._replace(weights=nn.functional.one_hot(torch.zeros(2, 3, dtype=torch.long), 5).float())
    assert hard.losses(told(), chosen, memory)["choices"] != 0
    assert hard.baseline.average.abs().sum() > 0


def test_a_whole_image_is_the_mean_of_its_cells_for_every_caption():
    cells = torch.randn(2, 5, 4)
    whole = MeanPooling()
    assert torch.allclose(
        whole(torch.zeros(4, 9), whole.project_kv(cells)), cells.mean(dim=1).repeat_interleave(2, dim=0)
    )
