"""One step: independent of how the batch is split; a non-finite loss stops the run or is skipped."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import ConfigError
from regard.training import log, optimizer, step
from regard.training.distributed import Processes, wrap_model
from regard.training.load_run import build_model, load_run
from regard.training.optimizer import schedule
from regard.training.run_folder import RunFolder
from regard.training.step import Diverged, Stepper, micro_batches, move_to_device, to_jsonable
from regard.training.train import train

ALONE = Processes(rank=0, world_size=1, device=torch.device("cpu"))


@given(count=st.integers(1, 30), world=st.integers(1, 5), accumulate=st.integers(1, 4))
def test_the_pieces_of_all_processes_are_the_batch(count, world, accumulate):
    examples = np.arange(count) * 3
    shares = [
        list(micro_batches(examples, rank=rank, world_size=world, accumulation_steps=accumulate))
        for rank in range(world)
    ]
    assert {len(share) for share in shares} == {accumulate}  # every process has the same number of micro-batches
    real = [index for share in shares for piece in share if piece.weight for index in piece.examples]
    assert sorted(real) == list(examples)
    assert all(len(piece.examples) for share in shares for piece in share)


def stepper(recipe):
    task = recipe.task.module("tasks").build(recipe.task.config)
    engine = wrap_model(build_model(recipe, task), ALONE, shard="none", example_loss=lambda model: None)
    adam = optimizer.build(recipe.training.optimizer, engine.model)
    factor = schedule(recipe.training.schedule, None)
    return Stepper(recipe, task, engine=engine, optimizer=adam, lr_factor=factor, processes=ALONE, loss=task.loss)


def changes(recipe, examples):
    take = stepper(recipe)
    before = {name: p.detach().clone() for name, p in take.engine.model.named_parameters()}
    outcome = take(examples, step=3, flags=lambda: (True, False))
    return outcome, {name: p.detach() - before[name] for name, p in take.engine.model.named_parameters()}


@pytest.mark.parametrize("accumulate", [2, 3, 7, 20])
def test_accumulating_changes_nothing(toy, accumulate):
    plain = ["model.dropout=0.0", "training.optimizer.eps=0.001"]
    complete, first = changes(toy(*plain), np.arange(9))
    cut, second = changes(toy(*plain, f"training.optimizer.accumulation_steps={accumulate}"), np.arange(9))
    assert complete.loss == pytest.approx(cut.loss, rel=1e-5)
    assert complete.grad_norm == pytest.approx(cut.grad_norm, rel=1e-4)
    assert complete.tokens == cut.tokens
    for name, change in first.items():
        torch.testing.assert_close(change, second[name], rtol=1e-3, atol=1e-6, msg=name)


def test_the_parts_of_a_loss_are_summed_as_the_loss_is(toy):
    complete, _ = changes(toy("model.dropout=0.0"), np.arange(9))
    cut, _ = changes(toy("model.dropout=0.0", "training.optimizer.accumulation_steps=4"), np.arange(9))
    assert sum(complete.loss_parts.values()) == pytest.approx(complete.loss) and set(complete.loss_parts) == {
        "first",
        "later",
    }
    assert cut.loss_parts == pytest.approx(complete.loss_parts, rel=1e-5)


def test_other_parts_in_another_batch_are_refused(toy):
    take = stepper(toy())
    take(np.arange(4), step=1, flags=tuple)
    take.loss = lambda model, batch: take.task.loss(model, batch)._replace(parts={})
    with pytest.raises(ConfigError, match="the parts first, later in one batch and none in another; return all parts"):
        take(np.arange(4), step=2, flags=tuple)
    take.loss = lambda model, batch: take.task.loss(model, batch)._replace(parts={"norm": torch.ones(())})
    with pytest.raises(ConfigError, match="part 'norm' of the loss has the name of a log column; rename it"):
        take(np.arange(4), step=2, flags=tuple)


def test_flags_and_rate_are_handed_on(toy):
    outcome, _ = changes(toy("training.schedule.warmup=6"), np.arange(4))
    assert outcome.flags == (True, False)
    assert outcome.lr == pytest.approx(0.01 * 3 / 6)


def test_the_loss_is_the_mean_over_tokens_so_the_norm_does_not_grow_with_the_batch(toy):
    once, _ = changes(toy("model.dropout=0.0"), np.arange(4))
    twice, _ = changes(toy("model.dropout=0.0"), np.concatenate([np.arange(4), np.arange(4)]))
    assert once.grad_norm == pytest.approx(twice.grad_norm, rel=1e-4)
    assert twice.tokens == 2 * once.tokens


def test_clipping_bounds_what_reaches_the_optimizer(toy):
    take = stepper(toy("training.optimizer.max_grad_norm=0.001"))
    gradients = []
    take.optimizer.step = lambda: gradients.extend(p.grad.clone() for p in take.engine.model.parameters())
    outcome = take(np.arange(4), step=1, flags=tuple)
    assert outcome.grad_norm > 0.001
    assert float(torch.cat([g.flatten() for g in gradients]).norm()) == pytest.approx(0.001, rel=0.01)


def test_a_batch_that_is_not_finite_changes_nothing(toy):
    outcome, change = changes(toy("data.poison=2"), np.arange(4))
    assert not outcome.is_finite
    assert all(not tensor.any() for tensor in change.values())


def test_the_same_step_is_the_same_whatever_came_before(toy):
    first, second = stepper(toy()), stepper(toy())
    torch.rand(17)
    outcomes = [take(np.arange(6), step=4, flags=tuple) for take in (first, second)]
    assert outcomes[0] == outcomes[1]
    assert stepper(toy())(np.arange(6), step=5, flags=tuple).loss != outcomes[0].loss  # another dropout mask


def test_a_batch_is_moved_as_it_is():
    batch = (torch.ones(2), (torch.zeros(1), None))
    assert move_to_device(batch, torch.device("cpu")) is batch
    assert move_to_device(batch, torch.device("meta"))[1][0].device.type == "meta"


def test_it_stops_and_keeps_the_examples(toy, tmp_path, silent):
    with pytest.raises(Diverged) as stopped:
        train(toy("data.poison=3", "training.files.save_every=1"), tmp_path / "run", console=silent)
    table = json.loads((tmp_path / "run" / "nonfinite.json").read_text())
    assert 3 in table["examples"] and len(table["examples"]) == 8
    assert table["batch"]["numbers"] == table["examples"] and table["loss"] == "nan"
    step = table["step"]
    before = f"the last checkpoint is step-{step - 1:09d}.safetensors" if step > 1 else "there is no checkpoint yet"
    message = str(stopped.value)
    assert f"loss nan is not finite at step {step} (epoch 1, batch {step})" in message
    assert before in message and "nonfinite.json" in message and "training.optimizer.on_nonfinite=skip" in message
    assert not RunFolder(tmp_path / "run").checkpoint(step).exists()


def test_or_it_skips_and_counts(toy, tmp_path, silent):
    settings = ["data.poison=3", "training.optimizer.on_nonfinite=skip", "training.files.log_every=5"]
    run = load_run(train(toy(*settings, "training.steps=10"), tmp_path / "run", console=silent))
    rows = [row for row in log.read_rows(tmp_path / "run" / "log.jsonl") if "loss" in row]
    assert [row["skipped"] for row in rows] == [1, 1]
    assert all(row["loss"] is not None for row in rows)
    assert all(torch.isfinite(p).all() for p in run.model.parameters())


class Batch(NamedTuple):
    tokens: torch.Tensor
    names: tuple
    image: torch.Tensor
    what: object


def test_a_batch_as_plain_values():
    batch = Batch(torch.tensor([[1, 2]]), ("a", None, 3), torch.arange(30_000.0), {1})
    assert to_jsonable(batch) == {
        "tokens": [[1, 2]],
        "names": ["a", None, 3],
        "image": {"shape": [30_000], "least": 0.0, "greatest": 29_999.0},
        "what": "{1}",
    }


def test_a_sparse_gradient_is_scaled_with_every_row_once():
    table = torch.nn.Embedding(6, 2, sparse=True)
    table(torch.tensor([1, 1, 4])).sum().backward()
    step._values(table.weight).mul_(3)
    assert table.weight.grad.to_dense().tolist() == [[0, 0], [6, 6], [0, 0], [0, 0], [3, 3], [0, 0]]
