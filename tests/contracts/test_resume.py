"""A killed and resumed run equals an uninterrupted one: every registered task, and processes with real signals.

The long version is bench/reliability.py.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from regard.core import config as configs
from regard.core.registry import find, registered_names
from regard.tasks import compatible_models
from regard.training import recipe as recipes
from regard.training import tensor_files
from regard.training.console import SilentConsole
from regard.training.run_folder import RunFolder
from regard.training.train import resume, train

pytestmark = pytest.mark.timeout(600)  # many processes, possibly on a busy machine
TINY = ["model=transformer", "model.layers=1", "model.dim=16", "model.ffn_dim=32", "model.heads=2", "data.pairs=300",
        "data.max_batch_tokens=256", "data.vocab_size=300", "training.files.log_every=1", "training.files.save_every=5",
        "training.evaluation.every=100000"]  # fmt: skip
SMALLER = {"translation": ["data.pairs=600"], "captioning": ["data.scenes=64"], "detection": ["data.scenes=64"]}
STEPS = ["training.steps=7", "training.files.log_every=2", "training.files.save_every=3", "training.evaluation.every=3"]


class Killer(SilentConsole):
    """Raises Killed after a number of steps, like a killed process: nothing is saved or printed."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def set_progress(self, done: float) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Killed


class Killed(BaseException):
    pass


def recipe_of(task: str) -> recipes.Recipe:
    """Return the recipe of a task on a part of its demo data, with the tiny configuration of a matching model."""
    module = find("regard.tasks", task)
    models = compatible_models(module.SPEC)
    assert models, f"no listed model fits the task {task}"
    default = module.DEFAULTS.get("model", {}).get("name")
    model = default if default in models else models[0]
    table = {"model": {"name": model, **configs.to_dict(find("regard.models", model).TINY)}}
    data = [setting for setting in module.DEMO if setting.startswith("data.")]
    settings = [f"model={model}", *data, *SMALLER.get(task, []), *STEPS]
    uninterrupted = recipes.read(task, settings=settings).to_dict()
    return recipes.from_dict(configs.merge(uninterrupted, table))


def outcome(path):
    """Return everything that must not depend on interruptions: weights, log and final state, except for the time."""
    folder = RunFolder(path)
    tensors, facts = tensor_files.read_tensors(folder.checkpoints()[-1])
    facts["progress"].pop("seconds")
    return folder.model.read_bytes(), folder.log.read_bytes(), facts, {k: t.tolist() for k, t in tensors.items()}


def score_by_weights(task, model, split, decoding):
    """Return a share that is cheap to compute; the metrics of the tasks have other tests."""
    total = float(sum(weight.double().sum() for weight in model.parameters()))
    return {task.target_metric.metric: math.atan(total) / math.pi + 0.5}


@pytest.mark.parametrize("task", registered_names("regard.tasks"))
def test_every_task_is_killed_and_resumed_as_if_it_never_was(task, tmp_path, monkeypatch):
    recipe = recipe_of(task)
    module = recipe.task.module("tasks")
    build, fresh = module.build, module.build(recipe.task.config)  # read once; a resumed run reads its data again
    monkeypatch.setattr(type(fresh), "evaluate", score_by_weights)
    monkeypatch.setattr(module, "build", lambda config, folder=None: build(config, folder=folder) if folder else fresh)
    uninterrupted = train(recipe, tmp_path / "whole", console=SilentConsole())
    with pytest.raises(Killed):
        train(recipe, tmp_path / "run", console=Killer(4))  # after the checkpoint of step 3, before that of step 6
    resume(tmp_path / "run", console=SilentConsole())
    assert outcome(tmp_path / "run") == outcome(uninterrupted)


def test_a_run_interrupted_at_any_file_operation_ends_like_an_uninterrupted_one(root):
    command = [sys.executable, str(root / "bench" / "reliability.py"), "--kills", "5", "--seed", "3", "--workers", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Guarantees broken: 0." in ran.stdout
    assert re.search(r"those of the uninterrupted run: \*\*(\d+) of \1\*\*", ran.stdout)


def test_what_is_not_flushed_is_missed(root):
    """The benchmark detects a broken guarantee: files that are moved into place without fsync, and a power loss."""
    program = "import sys, regard.core.files as files; files.fsync = lambda path: None; sys.path.insert(0, sys.argv[1])"
    program += (
        "; del sys.argv[1]; import reliability; reliability.SHARES = {reliability.POWER: 1.0}; reliability.main()"
    )
    command = [sys.executable, "-c", program, str(root / "bench"), "--kills", "5", "--seed", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "BROKEN power loss" in ran.stdout, ran.stdout + ran.stderr


def test_ctrl_c_saves_and_prints_how_to_continue(tmp_path):
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "regard",
        "train",
        "translation",
        *TINY,
        "training.steps=1000000",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    wait_for((out / "timing.jsonl").exists)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    last = stderr.splitlines()[-1]
    assert "stopped by SIGINT at step" in last
    assert f"continue with: regard train --resume {out}" in last
    assert "\x1b" not in stderr and "Traceback" not in stderr
    assert sorted((out / "state").glob("step-*.safetensors"))
    assert (out / "model.safetensors").exists()


def wait_for(ready, seconds=120):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)
