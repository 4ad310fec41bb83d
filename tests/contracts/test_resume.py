"""Killed and resumed is never killed: real processes, real signals, the command line. The long version is in bench/."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy
TINY = ["model=transformer", "model.layers=1", "model.dim=16", "model.hidden=32", "model.heads=2", "data.pairs=300",
        "data.tokens=256", "data.vocabulary=300", "training.files.log_every=1", "training.files.save_every=5",
        "training.evaluation.every=100000"]  # fmt: skip


def test_killed_processes_end_where_the_one_left_alone_does(root):
    command = [sys.executable, str(root / "bench" / "reliability.py"), "--kills", "5", "--seed", "3"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5 kills in" in ran.stdout
    assert re.search(r"never killed: \*\*(\d+) of \1\*\*", ran.stdout)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
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
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    last = said.splitlines()[-1]
    assert "stopped by SIGINT at step" in last
    assert f"go on with: regard train --resume {out}" in last
    assert "\x1b" not in said and "Traceback" not in said
    assert sorted((out / "state").glob("step-*.safetensors"))
    assert (out / "model.safetensors").exists()


def wait_for(ready, seconds=120):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)
