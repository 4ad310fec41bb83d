"""Short runs of the fuzzing harness: nothing breaks, and violations are detected."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("symusic", reason="symusic is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
from pathlib import Path

import fuzz
from fuzz_guard import Guard

SCRIPT = Path(__file__).parents[2] / "bench" / "fuzz.py"
pytestmark = pytest.mark.timeout(600)  # processes, on a machine that may be busy


def test_a_few_hundred_spoilt_inputs_end_in_an_answer_or_one_line():
    command = [sys.executable, str(SCRIPT), "--cases", "90", "--seed", "7"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
    assert len(re.findall(r"\| 0 \| [\d.]+ \|$", ran.stdout, flags=re.MULTILINE)) == len(fuzz.SHARES)


def test_every_kind_has_its_share():
    jobs = fuzz.plan(1000, list(fuzz.SHARES))
    assert abs(len(jobs) - 1000) < 10 and len(set(jobs)) == len(jobs)
    assert {job.kind for job in jobs[:100]} == set(fuzz.SHARES)
    assert fuzz.plan(1000, list(fuzz.SHARES)) == jobs


MISDEEDS = {
    "1 / 0": "ZeroDivisionError",
    "fail(fuzz.RegardError(' '))": "not one line",
    "(place / 'outside' / 'more').touch()": "changed a file outside of its folder",
    "os.remove(place / 'outside' / 'file')": "changed a file outside of its folder",
    "(place.parent / 'more').touch()": "wrote to",
    "socket.create_connection(('127.0.0.1', 9), timeout=1)": "ConnectionRefusedError",
    "socket.getaddrinfo('127.0.0.1', 9)": "used the network",
    "subprocess.run(['true'])": "started a process",
    "__import__('canary_hostile')": "No module named",
    "bytearray(2**31)": "MemoryError",
    "os.kill(os.getpid(), signal.SIGSEGV)": "the process was ended by SIGSEGV",
    "os.kill(os.getpid(), signal.SIGALRM)": "did not end within",
    "os._exit(0)": "the process ended by itself, with 0",
    "None": "",
}
PROGRAM = """
import json, os, signal, socket, subprocess, sys
from pathlib import Path
import fuzz
from fuzz_cases import Case

work, misdeeds = Path(sys.argv[1]), json.loads(sys.argv[2])
place = work / "worker-0"

def fail(wrong):
    raise wrong

class One:
    def __init__(self, misdeed):
        self.misdeed = misdeed

    def make(self, rng, folder):
        return Case(self.misdeed, lambda: eval(self.misdeed))

ground = fuzz.Range.__new__(fuzz.Range)
ground.work, ground.seed, ground.kinds = work, 0, {misdeed: One(misdeed) for misdeed in misdeeds}
results = fuzz.in_processes(ground, [fuzz.Job(misdeed, 0) for misdeed in misdeeds], 1)
Path(work / "results.json").write_text(json.dumps({result.what: result[1:] for result in results}))
"""


def test_every_misdeed_is_noticed(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), *sys.path])}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(list(MISDEEDS))]
    subprocess.run(command, capture_output=True, check=True, env=environment)
    results = json.loads((tmp_path / "results.json").read_text())
    assert {name: outcome for name, (outcome, *_) in results.items()} == {
        name: "broken" if why else "answered" for name, why in MISDEEDS.items()
    }
    for name, (*_, why) in results.items():
        assert MISDEEDS[name] in why, name


def test_names_in_a_folder_that_was_opened_are_followed(tmp_path, monkeypatch):
    guard = Guard.__new__(Guard)
    guard.allowed, guard.broken, guard.watching = [f"{tmp_path}{os.sep}"], [], True
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        guard._hear("os.remove", ("x", handle))
        guard._hear("os.remove", ("../x", handle))
    finally:
        os.close(handle)
    assert guard.broken == [f"os.remove {str(tmp_path.parent / 'x')!r}"]
