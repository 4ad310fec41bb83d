"""What the training tests share: toys found by their dotted names, also in the processes that tests start."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from regard.training import recipe as recipes  # after the path is set: the toys are part of what it reads
from regard.training.console import SilentConsole

QUICK = ["training.files.log_every=3", "training.optimizer.lr=0.01", "training.schedule.warmup=4", "training.steps=12"]


class Killer(SilentConsole):
    """Dies after a number of steps, as a process does that is killed: nothing is saved or said."""

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
    """Settings -> the recipe of a toy run."""
    return lambda *settings: recipes.read("toys.summing", settings=[*QUICK, *settings])


@pytest.fixture
def death():
    """Killer(steps), a console that dies after so many steps, and Killed, what it raises."""
    return SimpleNamespace(Killer=Killer, Killed=Killed)


@pytest.fixture
def silent():
    return SilentConsole()
