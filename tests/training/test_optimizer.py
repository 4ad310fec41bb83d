"""Optimizers are those of PyTorch with weight decay of matrices only; schedules are as published."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from regard.core.errors import ConfigError
from regard.training.config import Optimizer, Schedule
from regard.training.optimizer import build, check_weight_decay, constant, cosine, inverse_sqrt, noam, schedule, set_lr


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("adagrad", torch.optim.Adagrad)],
)
def test_it_is_pytorchs_own_and_covers_every_trainable_weight(name, kind):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    model[0].bias.requires_grad_(False)
    optimizer = build(Optimizer(name=name, weight_decay=0.1), model)
    assert type(optimizer) is kind
    covered = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(covered) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_gains_and_biases_do_not_decay():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    optimizer = build(Optimizer(name="adamw", lr=0.1, weight_decay=0.5), model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (parameter.dim() < 2)


@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adamw", 0.01), ("adagrad", 0.01)])
def test_decay_that_does_what_it_says_is_taken(name, decay):
    check_weight_decay(Optimizer(name=name, weight_decay=decay))


def test_decay_within_the_gradient_of_adam_is_refused():
    with pytest.raises(ConfigError, match=r"weight_decay=0.01 with name='adam' is far stronger.*set name='adamw'"):
        check_weight_decay(Optimizer(weight_decay=0.01))


def test_the_rate_is_set_for_all():
    optimizer = build(Optimizer(), nn.Linear(2, 2))
    set_lr(optimizer, 0.25)
    assert {group["lr"] for group in optimizer.param_groups} == {0.25}


def test_noam_is_the_formula_of_the_paper():
    for step in (1, 399, 400, 401, 9000):
        assert noam(step, warmup=400) == pytest.approx(min(step**-0.5, step * 400**-1.5))


def test_inverse_sqrt_is_noam_with_its_peak_at_one():
    peak = noam(400, warmup=400)
    for step in (1, 200, 400, 5000):
        assert inverse_sqrt(step, warmup=400) == pytest.approx(noam(step, warmup=400) / peak)


def test_constant_rises_and_stays():
    assert [constant(step, warmup=4) for step in (1, 2, 4, 5, 100)] == [0.25, 0.5, 1, 1, 1]


def test_cosine_rises_falls_and_ends_at_its_floor():
    curve = [cosine(step, warmup=10, total=110, min_lr_ratio=0.1) for step in range(1, 131)]
    assert curve[9] == 1 and curve[109] == pytest.approx(0.1) and curve[129] == pytest.approx(0.1)
    assert curve[59] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 2)))
    assert all(later <= earlier for earlier, later in pairwise(curve[9:]))


@pytest.mark.parametrize("name", ["constant", "noam", "inverse_sqrt", "cosine"])
def test_each_is_found_by_name_and_rises_through_the_warmup(name):
    factor = schedule(Schedule(name=name, warmup=20), 100)
    rise = [factor(step) for step in range(1, 21)]
    assert rise == sorted(rise) and rise[0] > 0
    assert factor(40) <= factor(20)
