"""One step: the same however the batch is cut, and nothing changes where it is not finite."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.training import optimizer
from regard.training.distributed import Processes, join
from regard.training.run import build_model
from regard.training.schedule import schedule
from regard.training.step import Stepper, move, parts

ALONE = Processes(rank=0, world=1, device=torch.device("cpu"))


@given(count=st.integers(1, 30), world=st.integers(1, 5), accumulate=st.integers(1, 4))
def test_the_parts_of_all_processes_are_the_batch(count, world, accumulate):
    examples = np.arange(count) * 3
    shares = [list(parts(examples, rank=rank, world=world, accumulate=accumulate)) for rank in range(world)]
    assert {len(share) for share in shares} == {accumulate}  # every process does as many parts
    real = [number for share in shares for part in share if part.weight for number in part.examples]
    assert sorted(real) == list(examples)
    assert all(len(part.examples) for share in shares for part in share)


def stepper(recipe):
    task = recipe.task.module("tasks").build(recipe.task.config)
    engine = join(build_model(recipe, task), ALONE, shard="none", work=lambda model: None)
    made = optimizer.build(recipe.training.optimizer, engine.model)
    factor = schedule(recipe.training.schedule, None)
    return Stepper(recipe, task, engine=engine, optimizer=made, factor=factor, processes=ALONE, work=task.loss)


def changes(recipe, examples):
    made = stepper(recipe)
    before = {name: p.detach().clone() for name, p in made.engine.model.named_parameters()}
    outcome = made(examples, step=3, flags=lambda: (True, False))
    return outcome, {name: p.detach() - before[name] for name, p in made.engine.model.named_parameters()}


@pytest.mark.parametrize("accumulate", [2, 3, 7, 20])
def test_accumulating_changes_nothing(toy, accumulate):
    plain = ["model.dropout=0.0", "training.optimizer.eps=0.001"]
    whole, first = changes(toy(*plain), np.arange(9))
    cut, second = changes(toy(*plain, f"training.optimizer.accumulate={accumulate}"), np.arange(9))
    assert whole.loss == pytest.approx(cut.loss, rel=1e-5)
    assert whole.norm == pytest.approx(cut.norm, rel=1e-4)
    assert whole.tokens == cut.tokens
    for name, change in first.items():
        torch.testing.assert_close(change, second[name], rtol=1e-3, atol=1e-6, msg=name)


def test_flags_and_rate_are_handed_on(toy):
    outcome, _ = changes(toy("training.schedule.warmup=6"), np.arange(4))
    assert outcome.flags == (True, False)
    assert outcome.rate == pytest.approx(0.01 * 3 / 6)


def test_the_loss_is_the_mean_over_tokens_so_the_norm_does_not_grow_with_the_batch(toy):
    once, _ = changes(toy("model.dropout=0.0"), np.arange(4))
    twice, _ = changes(toy("model.dropout=0.0"), np.concatenate([np.arange(4), np.arange(4)]))
    assert once.norm == pytest.approx(twice.norm, rel=1e-4)
    assert twice.tokens == 2 * once.tokens


def test_clipping_bounds_what_reaches_the_optimizer(toy):
    made = stepper(toy("training.optimizer.clip=0.001"))
    seen = []
    made.optimizer.step = lambda: seen.extend(p.grad.clone() for p in made.engine.model.parameters())
    outcome = made(np.arange(4), step=1, flags=tuple)
    assert outcome.norm > 0.001
    assert float(torch.cat([g.flatten() for g in seen]).norm()) == pytest.approx(0.001, rel=0.01)


def test_a_batch_that_is_not_finite_changes_nothing(toy):
    outcome, change = changes(toy("data.poison=2"), np.arange(4))
    assert not outcome.finite
    assert all(not tensor.any() for tensor in change.values())


def test_the_same_step_is_the_same_whatever_came_before(toy):
    first, second = stepper(toy()), stepper(toy())
    torch.rand(17)
    outcomes = [one(np.arange(6), step=4, flags=tuple) for one in (first, second)]
    assert outcomes[0] == outcomes[1]
    assert stepper(toy())(np.arange(6), step=5, flags=tuple).loss != outcomes[0].loss  # dropout is another


def test_a_batch_is_moved_as_it_is():
    batch = (torch.ones(2), (torch.zeros(1), None))
    assert move(batch, torch.device("cpu")) is batch
    assert move(batch, torch.device("meta"))[1][0].device.type == "meta"
