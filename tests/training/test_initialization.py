"""The time of what is fitted to the data before the first step: timing.jsonl, training.minutes and the plan."""

from __future__ import annotations

import json

import pytest
import torch
from toys.summing import Summing

from regard.training import plan
from regard.training import recipe as recipes
from regard.training.console import SilentConsole
from regard.training.plan import Times, derive_schedule
from regard.training.train import build_task, resume, train


class Clock:
    """Clock that only `advance` moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    return clock


def timing(path):
    return [json.loads(line) for line in (path / "timing.jsonl").read_text().splitlines()]


def test_the_time_of_the_initialization_is_stored_once(toy, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(Summing, "initialize", lambda self, model: clock.advance(2.5))
    monkeypatch.setattr(Summing, "fit_s", 1.25, raising=False)
    train(toy("training.files.log_every=1", "training.steps=2"), tmp_path / "run", console=SilentConsole())
    rows = timing(tmp_path / "run")
    assert rows[0] == {"step": 0, "seconds": 3.75} and [row["step"] for row in rows[1:]] == [1, 2]
    resume(tmp_path / "run", ["training.steps=3"], console=SilentConsole())
    assert [row["step"] for row in timing(tmp_path / "run")] == [0, 1, 2, 3]


def test_a_task_that_fits_nothing_has_no_such_row(toy, tmp_path, silent):
    train(toy("training.files.log_every=1", "training.steps=1"), tmp_path / "run", console=silent)
    assert [row["step"] for row in timing(tmp_path / "run")] == [1]


def test_the_initialization_counts_for_the_minutes(toy, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(Summing, "initialize", lambda self, model: clock.advance(90.0))
    train(toy("training.files.log_every=1", "training.minutes=1"), tmp_path / "run", console=SilentConsole())
    (first, last) = timing(tmp_path / "run")
    assert (first["step"], last["step"]) == (0, 1)  # the budget ends after one step


def test_the_counts_of_a_recommender_with_a_memory_are_part_of_its_time(tmp_path):
    settings = ["data.users=40", "data.items=24", "model.preset=small", "training.steps=1", "data.memory=2"]
    run = train(recipes.read("recommendation", settings=settings), tmp_path / "run", console=SilentConsole())
    assert timing(run)[0]["step"] == 0 and timing(run)[0]["seconds"] > 0


def test_a_plan_measures_the_initialization_and_subtracts_it(toy, clock, monkeypatch):
    recipe = toy("training.minutes=1")
    monkeypatch.setattr(Summing, "initialize", lambda self, model: clock.advance(20.0))
    assert plan.measure_times(recipe, build_task(recipe), torch.device("cpu")).initial == 20.0
    (all_steps, fewer_steps) = (
        derive_schedule(recipe, steps_per_epoch=10, times=Times(0.1, 0.1, initial=seconds))["training.steps"]
        for seconds in (0.0, 30.0)
    )
    assert fewer_steps == pytest.approx(all_steps / 2, rel=0.05)
