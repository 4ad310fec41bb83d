"""Fixtures of the training tests. The toys are imported by dotted names, also in subprocesses."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from regard.training import recipe as recipes  # after sys.path is set, because recipes import the toys
from regard.training.console import SilentConsole

QUICK = ["training.files.log_every=3", "training.optimizer.lr=0.01", "training.schedule.warmup=4", "training.steps=12"]


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


@pytest.fixture
def toy():
    """Return a function: settings -> recipe of a toy run."""
    return lambda *settings: recipes.read("toys.summing", settings=[*QUICK, *settings])


@pytest.fixture
def death():
    """Return Killer(steps), a console that raises Killed after this many steps, and Killed."""
    return SimpleNamespace(Killer=Killer, Killed=Killed)


@pytest.fixture
def silent():
    return SilentConsole()
