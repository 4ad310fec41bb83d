"""Optimizers are those of PyTorch with weight decay of matrices only; schedules are as published."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from regard.core.errors import ConfigError
from regard.training.checkpoint import optimizer_state, restore_optimizer
from regard.training.config import Optimizer, Schedule
from regard.training.optimizer import build, check_weight_decay, constant, cosine, inverse_sqrt, noam, schedule, set_lr


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("adagrad", torch.optim.Adagrad)],
        ("sgd", torch.optim.SGD),
    ],
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


@pytest.mark.parametrize("setting", [{"name": "adamw"}, {"name": "sgd", "weight_decay": 0.1}])
def test_sparse_gradients_need_sgd_without_decay(setting):
    model = nn.Sequential(nn.Embedding(5, 2, sparse=True))
    build(Optimizer(name="sgd"), model)
    remedy = r"those of 0 are sparse; set name='sgd' and weight_decay=0, or model.sparse=false"
    with pytest.raises(
        ConfigError, match=rf"training.optimizer: name='{setting['name']}' with weight_decay=.*{remedy}"
    ):
        build(Optimizer(**setting), model)


class Tied(nn.Module):
    """A toy language model: a table tied to the output projection, one hidden matrix, one gain."""

    def __init__(self):
        super().__init__()
        self.embedding, self.hidden, self.norm = nn.Embedding(7, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.readout = nn.Linear(4, 7)
        self.readout.weight = self.embedding.weight

    def forward(self, ids):
        return self.readout(self.norm(self.hidden(self.embedding(ids))))


def train_tied(optimizer, model, steps):
    for step in range(steps):
        ids = torch.arange(7).roll(step)
        nn.functional.cross_entropy(model(ids), ids.roll(1)).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_muon_updates_hidden_matrices_only():
    model = Tied()
    optimizer = build(Optimizer(name="muon", lr=0.01, weight_decay=0.0), model)
    before = model.hidden.weight.detach().clone()
    train_tied(optimizer, model, 1)
    update = (before - model.hidden.weight.detach()) / (0.01 * 0.2 * math.sqrt(4))
    values = torch.linalg.svdvals(update)[:3]  # the fourth is near zero: LayerNorm removes the mean
    assert values.sub(1).abs().max() < 0.4  # orthogonal, as exact as five iterations make it
    assert [id(p) for group in optimizer.muon.param_groups for p in group["params"]] == [id(model.hidden.weight)]
    covered = sorted(id(p) for group in optimizer.param_groups for p in group["params"])
    assert covered == sorted(id(p) for p in model.parameters())


def test_muon_follows_the_rate_and_resumes_exactly():
    torch.manual_seed(0)
    model, resumed = Tied(), Tied()
    resumed.load_state_dict(model.state_dict())
    optimizer = build(Optimizer(name="muon", lr=0.01), model)
    train_tied(optimizer, model, 3)
    resumed.load_state_dict(model.state_dict())
    second = build(Optimizer(name="muon", lr=0.01), resumed)
    restore_optimizer(resumed, second, tensors={k: v.clone() for k, v in optimizer_state(model, optimizer).items()})
    for each_model, each_optimizer in ((model, optimizer), (resumed, second)):
        set_lr(each_optimizer, 0.003)
        train_tied(each_optimizer, each_model, 2)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, dict(resumed.named_parameters())[name]), name


def test_muon_without_hidden_matrices_is_refused():
    with pytest.raises(ConfigError, match=r"name='muon' needs matrices in hidden layers; set name='adamw'"):
        build(Optimizer(name="muon"), nn.Embedding(3, 2))


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
