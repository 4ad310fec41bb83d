"""Checkpoints: tied weights are stored once, loading restores everything, mismatches are named; weight averaging."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from toys import gated, summing

from regard.core.errors import CheckpointError
from regard.training import checkpoint, tensor_files
from regard.training.checkpoint import BestEvaluation, LogWindow, Progress, batches_checksum, mean_weights
from regard.training.config import Optimizer
from regard.training.optimizer import build
from regard.training.run_folder import RunFolder, RunIdentity

NO_IDENTITY = RunIdentity(None, {}, None)  # of runs that are older than run ids


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.mkdir()
    return folder


def trained(dim=8, seed=0):
    torch.manual_seed(seed)
    model = gated.Gated(gated.Config(dim=dim, spare=True), 6)
    optimizer = build(Optimizer(), model)
    for _ in range(3):
        model(torch.randint(6, (2, 4))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def test_tied_weights_are_stored_once_and_stay_tied(folder):
    model, optimizer = trained()
    assert "readout.weight" not in checkpoint.model_weights(model)
    assert "embedding.weight" in checkpoint.model_weights(model)
    checkpoint.save(folder, model, optimizer=optimizer, progress=Progress(step=3), write=True)
    restored, fresh = trained(seed=1)
    checkpoint.load(folder.checkpoint(3), restored, optimizer=fresh, identity=NO_IDENTITY)
    assert restored.readout.weight is restored.embedding.weight
    assert torch.equal(restored.embedding.weight, model.embedding.weight)


def test_saved_loaded_saved_is_the_same_bytes(folder):
    model, optimizer = trained()
    now = Progress(step=3, seconds=1.25)
    checkpoint.save(folder, model, optimizer=optimizer, progress=now, write=True)
    first = folder.checkpoint(3).read_bytes()
    restored, fresh = trained(seed=1)
    assert checkpoint.load(folder.checkpoint(3), restored, optimizer=fresh, identity=NO_IDENTITY) == now
    checkpoint.save(folder, restored, optimizer=fresh, progress=now, write=True)
    assert folder.checkpoint(3).read_bytes() == first


def test_the_optimizer_continues_exactly(folder):
    model, optimizer = trained()
    checkpoint.save(folder, model, optimizer=optimizer, progress=Progress(), write=True)
    restored, fresh = trained(seed=1)
    checkpoint.load(folder.checkpoint(0), restored, optimizer=fresh, identity=NO_IDENTITY)
    for network, adam in ((model, optimizer), (restored, fresh)):
        torch.manual_seed(9)
        network(torch.randint(6, (2, 4))).sum().backward()
        adam.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), restored.parameters(), strict=True))


def test_every_saved_buffer_is_kept_and_no_other(folder):
    model = nn.BatchNorm1d(3)
    model.register_buffer("scratch", torch.ones(2), persistent=False)
    model(torch.randn(4, 3))
    assert sorted(checkpoint.model_weights(model)) == [
        "bias",
        "num_batches_tracked",
        "running_mean",
        "running_var",
        "weight",
    ]
    restored = nn.BatchNorm1d(3)
    checkpoint.restore_weights(restored, checkpoint.model_weights(model), folder.model)
    assert torch.equal(restored.running_mean, model.running_mean)


def test_weights_of_another_model_are_refused_by_name(folder):
    model, optimizer = trained()
    checkpoint.save(folder, model, optimizer=optimizer, progress=Progress(), write=True)
    wide, fresh = trained(dim=16)
    before = wide.embedding.weight.clone()
    with pytest.raises(CheckpointError, match=r"embedding\.weight is \(6, 8\) in the file, \(6, 16\) in the model"):
        checkpoint.load(folder.checkpoint(0), wide, optimizer=fresh, identity=NO_IDENTITY)
    assert torch.equal(wide.embedding.weight, before)
    with pytest.raises(
        CheckpointError, match=r"does not fit the model: missing weight; unknown blocks\.0\.cell\.bias_hh"
    ):
        checkpoint.restore_weights(nn.PReLU(), checkpoint.model_weights(model), folder.model)


def test_a_file_of_weights_is_no_checkpoint(folder):
    model, optimizer = trained()
    tensor_files.write_tensors(folder.checkpoint(1), checkpoint.model_weights(model), {"progress": {"step": 1}})
    with pytest.raises(CheckpointError, match="not a checkpoint of this version of regard; train the run again"):
        checkpoint.load(folder.checkpoint(1), model, optimizer=optimizer, identity=NO_IDENTITY)


def test_only_the_last_ones_are_kept(folder):
    model, optimizer = trained()
    for step in (2, 10, 300):
        checkpoint.save(folder, model, optimizer=optimizer, progress=Progress(step=step), write=True)
        tensor_files.write_tensors(folder.snapshot(step), checkpoint.model_weights(model), {})
    checkpoint.prune(folder, Progress(snapshots=[300]), keep=2)
    assert [path.name for path in folder.checkpoints()] == ["step-000000010.safetensors", "step-000000300.safetensors"]
    assert folder.snapshots() == [folder.snapshot(300)]


def test_a_process_that_does_not_write_writes_nothing(folder):
    model, optimizer = trained()
    checkpoint.save(folder, model, optimizer=optimizer, progress=Progress(), write=False)
    assert folder.checkpoints() == []


def test_a_damaged_checkpoint_is_never_loaded(folder):
    """The complete file, in ranges: truncated, inverted, or removed."""
    model, optimizer = trained()
    checkpoint.save(folder, model, optimizer=optimizer, progress=Progress(), write=True)
    path = folder.checkpoint(0)
    data = path.read_bytes()
    before = model.embedding.weight.detach().clone()
    for start in range(0, len(data), 97):
        part = data[start : start + 97]
        turned = bytes(byte ^ 0xFF for byte in part)
        for damaged in (data[:start], data[:start] + turned + data[start + 97 :], data[:start] + data[start + 97 :]):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=r"step-000000000\.safetensors: damaged"):
                checkpoint.load(path, model, optimizer=optimizer, identity=NO_IDENTITY)
    assert torch.equal(model.embedding.weight, before)


def test_it_survives_json_to_the_last_digit():
    window, best = LogWindow(1 / 3, 5, 1, {"penalty": 0.1 + 0.2}), BestEvaluation(4, 2 / 3, 1, {"loss": 1e-17})
    now = Progress(step=7, epoch=1, index=2, seconds=0.1 + 0.2, window=window, best=best, snapshots=[3, 6], plan="x")
    assert Progress.from_dict(json.loads(json.dumps(now.to_dict())), "here") == now


def test_the_checksum_of_a_plan_changes_with_every_batch():
    plan = summing.build(summing.Config()).epoch_batches(0, 1)
    same = batches_checksum(plan)
    assert batches_checksum(list(plan)) == same
    for restored in (plan[:-1], plan[::-1], [plan[0][::-1], *plan[1:]], [], [plan[0][:1], plan[0][1:], *plan[1:]]):
        assert batches_checksum(restored) != same


@pytest.mark.parametrize(
    "change",
    [{"step": "x"}, {"step": None}, {"best": []}, {"best": {"step": []}}, {"window": 3}, {"log": []}, {"seconds": "1"},
     {"snapshots": {}}, {"strange": 1}, {"best": {"metrics": []}}],
)  # fmt: skip
def test_a_progress_of_the_wrong_kind_is_refused(change):
    table = Progress().to_dict()
    assert Progress.from_dict(table | {"data": "of an earlier version"}, "here") == Progress()
    table |= {key: table[key] | value if isinstance(value, dict) and value else value for key, value in change.items()}
    with pytest.raises(CheckpointError, match="here: not a checkpoint of this version of regard; train the run again"):
        Progress.from_dict(table, "here")


def test_a_checkpoint_of_another_run_is_refused(folder):
    model, optimizer = trained()
    checkpoint.save(folder, model, optimizer=optimizer, progress=Progress(run="abc"), write=True)
    path = folder.checkpoint(0)
    mine = RunIdentity("abc", {}, {})
    assert checkpoint.load(path, model, optimizer=optimizer, identity=mine).run == "abc"
    with pytest.raises(
        CheckpointError, match=r"belongs to run abc, but .*state is run other; restore the file of this"
    ):
        checkpoint.load(path, model, optimizer=optimizer, identity=RunIdentity("other", {}, {}))
    with pytest.raises(CheckpointError, match=r"belongs to run abc, but .*state is a run without an id"):
        checkpoint.load(path, model, optimizer=optimizer, identity=NO_IDENTITY)
    with pytest.raises(CheckpointError, match="belongs to run abc"):
        mean_weights([path], RunIdentity("other", {}, {}))


def test_the_mean_is_the_mean(tmp_path):
    paths = [tmp_path / f"{value}.safetensors" for value in range(3)]
    for value, path in enumerate(paths):
        tensor_files.write_tensors(path, {"w": torch.full((2,), float(value)), "n": torch.tensor(value)}, {})
    average = mean_weights(paths, NO_IDENTITY)
    assert average["w"].tolist() == [1.0, 1.0] and average["w"].dtype == torch.float32
    assert average["n"] == 2
    assert mean_weights(paths[:1], NO_IDENTITY)["w"].tolist() == [0.0, 0.0]


def test_what_cannot_be_averaged_is_named(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"no weights to average; train with training\.evaluation\.average_last=N"
    ):
        mean_weights([], NO_IDENTITY)
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for path, size in zip(paths, (2, 3), strict=True):
        tensor_files.write_tensors(path, {"w": torch.zeros(size)}, {})
    with pytest.raises(CheckpointError, match=r"b\.safetensors: does not have the tensors of a\.safetensors"):
        mean_weights(paths, NO_IDENTITY)
