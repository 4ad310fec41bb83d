"""Weights that come with the mixture are the weights that it was made with."""

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend, append_one_hot, attend_with_weights
from regard.attention.masks import Mask
from regard.attention.normalizers import Hard
from regard.attention.record import record


@pytest.mark.parametrize("score", ["scaled_dot", "concat"])
def test_weights_are_those_of_the_definition(score):
    torch.manual_seed(0)
    attend = Attend(scores.build(score, 4))
    q, k, v = torch.randn(4, 1, 2, 4), torch.randn(2, 1, 5, 4), torch.randn(2, 1, 5, 3)  # two queries share a source
    mask = Mask.lengths(torch.tensor([5, 3]), 5)
    k = attend.project(k)
    with record(attend) as maps:
        found = attend_with_weights(attend, q, k, append_one_hot(v), mask)
    assert torch.allclose(found.weights, maps[""].weights, atol=1e-6)
    assert torch.allclose(found.output, attend(q, k, v, mask), atol=1e-6)


def test_they_have_a_gradient_and_a_hard_choice_is_a_one():
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 2, 4, requires_grad=True), torch.randn(1, 1, 5, 4)
    attend_with_weights(Attend(scores.build("dot", 4)), q, k, append_one_hot(k)).weights[..., 0].sum().backward()
    assert q.grad.abs().sum() > 0
    chosen = attend_with_weights(Attend(scores.build("dot", 4), normalizer=Hard()), q, k, append_one_hot(k)).weights
    assert chosen.sum(dim=-1).tolist() == [[[1.0, 1.0]]] and chosen.amax() == 1
