"""The optimizer: PyTorch's own, decay on matrices only."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.training.config import Optimizer
from regard.training.optimizer import build, set_rate


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_it_is_pytorchs_own_and_covers_every_trainable_weight(name, kind):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    model[0].bias.requires_grad_(False)
    made = build(Optimizer(name=name, decay=0.1), model)
    assert type(made) is kind
    covered = [id(p) for group in made.param_groups for p in group["params"]]
    assert sorted(covered) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_gains_and_biases_do_not_decay():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    made = build(Optimizer(name="adamw", lr=0.1, decay=0.5), model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    made.step()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (parameter.dim() < 2)


def test_the_rate_is_set_for_all():
    made = build(Optimizer(), nn.Linear(2, 2))
    set_rate(made, 0.25)
    assert {group["lr"] for group in made.param_groups} == {0.25}
