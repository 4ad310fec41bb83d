"""Distributed training equals training with one process, resumes across process counts, and stops together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from toys import together

from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.registry import find
from regard.tasks import compatible_models
from regard.training import distributed, log, tensor_files
from regard.training import distributed as sharding
from regard.training.distributed import Processes, distributed_context, repeated_blocks, shard_units, wrap_model
from regard.training.run_folder import RunFolder
from regard.training.train import resume, train

HERE = Path(__file__).parent
KINDS = ("frozen", "frozen-sharded", "spare", "short")
pytestmark = pytest.mark.timeout(600)  # several processes import torch, possibly on a busy machine


def torchrun(processes, *arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += map(str, arguments)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, stderr = process.communicate(timeout=500)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun then ends its processes
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, stderr)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    from regard.training.console import SilentConsole

    out = tmp_path_factory.mktemp("alone")
    train(together.recipe("plain", out), out / "plain", console=SilentConsole())
    train(together.recipe("short", out), out / "half", console=SilentConsole())
    train(together.recipe("frozen", out), out / "frozen", console=SilentConsole())
    return out


@pytest.fixture(scope="module")
def two(tmp_path_factory, alone):
    out = tmp_path_factory.mktemp("two")
    shutil.copytree(alone / "half", out / "half")
    ran = torchrun(2, HERE / "toys" / "together.py", out, "plain", "parts", "sharded", *KINDS, "resume")
    assert ran.returncode == 0, ran.stderr
    return out


def assert_same_run(first, second):
    """Compare every log row, and the final weights and optimizer state, up to rounding."""
    rows, second_values = log.read_rows(first / "log.jsonl"), log.read_rows(second / "log.jsonl")
    assert [row.keys() for row in rows] == [row.keys() for row in second_values]
    for row, second_row in zip(rows, second_values, strict=True):
        assert all(
            row[key] == pytest.approx(second_row[key], rel=1e-4, abs=1e-6)
            for key in row
            if key not in ("end", "run", "rule", "precision")
        )
        assert row.get("rule", "").partition(" (")[0] == second_row.get("rule", "").partition(" (")[0]
    (tensors, _), (second_values, _) = (
        tensor_files.read_tensors(RunFolder(path).checkpoints()[-1]) for path in (first, second)
    )
    assert tensors.keys() == second_values.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, second_values[name], rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", ["plain", "parts", "sharded"])
def test_two_processes_compute_the_steps_of_one(alone, two, kind):
    assert_same_run(alone / "plain", two / kind)


@pytest.mark.parametrize("kind", ["frozen", "frozen-sharded"])
def test_two_processes_keep_frozen_what_one_keeps_frozen(alone, two, kind):
    assert_same_run(alone / "frozen", two / kind)
    initial, ended = (tensor_files.read_tensors(path / "model.safetensors")[0] for path in (alone / "half", two / kind))
    assert all(torch.equal(initial[name], ended[name]) for name in initial if name.startswith("blocks."))


def test_three_processes_compute_the_steps_of_one_though_two_have_nothing_to_do(alone, tmp_path):
    ran = torchrun(3, HERE / "toys" / "together.py", tmp_path, "plain")  # the last batch of an epoch is one example
    assert ran.returncode == 0, ran.stderr
    assert_same_run(alone / "plain", tmp_path / "plain")


def test_a_weight_without_gradient_does_not_stop_the_others(two):
    assert log.read_rows(two / "spare" / "log.jsonl")[-1]["end"] == "steps"


def test_saved_by_two_resumed_by_one(alone, two, silent):
    resume(two / "short", ["training.steps=9"], console=silent)
    compare_end(alone / "plain", two / "short")


def test_saved_by_one_resumed_by_two(alone, two):
    compare_end(alone / "plain", two / "half")


def compare_end(first, second):
    (tensors, _), (second_values, _) = (
        tensor_files.read_tensors(RunFolder(path).checkpoints()[-1]) for path in (first, second)
    )
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, second_values[name], rtol=1e-3, atol=1e-5, msg=name)


def test_a_dying_process_ends_the_job_with_its_reason(tmp_path):
    began = time.monotonic()
    ran = torchrun(2, "-m", "regard", "train", "toys.summing", "data.fail_on_rank=1", "--out", tmp_path / "run")
    assert ran.returncode != 0
    assert "the toy data broke off at line 7" in ran.stderr
    assert time.monotonic() - began < 300


def test_alone_nothing_is_exchanged():
    processes = Processes(rank=0, world_size=1, device=torch.device("cpu"))
    assert processes.all_reduce_sum([1.0, 2.0]) == [1.0, 2.0]
    assert processes.broadcast_from_main(True) and not processes.broadcast_from_main(False)
    processes.barrier()
    model = nn.Linear(2, 2)
    engine = wrap_model(model, processes, shard="full", example_loss=lambda model: None)
    assert engine.wrapped(lambda inner, x: inner is model and x, 3) == 3


def test_an_apple_gpu_is_not_shared(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(distributed, "select_device", lambda *_, **__: torch.device("mps"))
    with (
        pytest.raises(ConfigError, match="device='mps' does not support several processes"),
        distributed_context("mps"),
    ):
        pass


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(20, 20)
        self.door = nn.Linear(20, 20)
        self.scale = nn.Parameter(torch.ones(20))

    def forward(self, x):
        return self.inner(x) * self.scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.readout = nn.Linear(20, 20)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.readout(x)


def test_blocks_are_the_outermost_members_of_module_lists():
    model = Model()
    model.blocks[0].deeper = nn.ModuleList([nn.Linear(2, 2)])
    assert repeated_blocks(model) == list(model.blocks)


def test_a_block_entered_by_its_forward_is_one_unit():
    model = Model()
    assert shard_units(model, lambda: model(torch.ones(1, 20))) == list(model.blocks)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_block_with_another_door_is_taken_apart():
    model = Model()

    def work():
        model.blocks[0].door(torch.ones(20))  # a module of the block, used outside of its forward
        return model(torch.ones(1, 20) * model.blocks[1].scale)  # a weight of the block, used outside of its forward

    inner, door = model.blocks[0].inner, model.blocks[0].door
    assert shard_units(model, work) == [inner, door, model.blocks[1].inner, model.blocks[1].door]


def test_small_parts_and_tied_weights_are_left_to_the_root(monkeypatch):
    model = Model()
    model.blocks[1].inner.weight = model.readout.weight
    assert shard_units(model, lambda: model(torch.ones(1, 20))) == [model.blocks[0], model.blocks[1].door]
    monkeypatch.setattr(sharding, "MIN_SHARD_WEIGHTS", 10_000)
    assert shard_units(model, lambda: model(torch.ones(1, 20))) == []


@pytest.mark.parametrize("name", compatible_models(Seq2SeqSpec))
def test_the_units_of_models_of_text_do_not_overlap(name):
    module, sizes = find("regard.models", name), Seq2SeqSpec(source_vocab_size=9, target_vocab_size=9, max_length=8)
    model = module.build(module.TINY, sizes)
    source = Padded(torch.randint(4, 9, (2, 5)), torch.tensor([5, 4]))
    parts = shard_units(model, lambda: model(torch.randint(4, 9, (2, 6)), model.start(source)))
    weights = [id(weight) for unit in parts for weight in unit.parameters()]
    assert len(weights) == len(set(weights))
    if name == "transformer":
        assert set(model.encoder.layers) <= set(parts)
        assert not set(model.decoder.layers) & set(parts)  # their keys are projected before decoding starts


def test_when_torchrun_is_killed_its_processes_end(tmp_path):
    settings = ["training.steps=100000000", "training.files.log_every=1", "--out", str(tmp_path / "run")]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "regard"]
    environment = os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{os.environ['PYTHONPATH']}"}
    parent = subprocess.Popen(
        [*command, "train", "toys.summing", *settings], env=environment, stderr=subprocess.DEVNULL
    )
    wait_for((tmp_path / "run" / "timing.jsonl").exists)
    children = [int(word) for word in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
    assert len(children) == 2
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(alive(child) for child in children))
    assert RunFolder(tmp_path / "run").checkpoints()  # they saved first


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(ready, seconds=150):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.05)
