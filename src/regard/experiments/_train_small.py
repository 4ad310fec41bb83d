"""Train a small model for an experiment with the regular trainer, in a temporary run folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from regard.experiments._experiment import STOPPED
from regard.experiments._plateau import LATE_GAIN, NUM_EVALUATIONS, late_gain
from regard.training.console import SilentConsole
from regard.training.load_run import LoadedRun, load_run
from regard.training.recipe import read
from regard.training.stop_signals import Interrupted
from regard.training.train import train


class Evaluations(NamedTuple):
    """Validation metrics of a training."""

    scores: dict[str, float]  # of the stored weights, the best ones
    curves: dict[str, list[float]]  # of each metric, one value per evaluation


class TrainedModel(NamedTuple):
    """A trained model and its validation metrics."""

    run: LoadedRun
    evaluations: Evaluations

    @property
    def scores(self) -> dict[str, float]:
        """Validation metrics of the stored weights."""
        return self.evaluations.scores

    def late_gain(self, metric: str = "", *, resolution: float = 0.0) -> dict[str, float]:
        """Return the figure of the plateau rule for the curve of a metric; the default is the task's target metric."""
        task = self.run.task
        target = task.target_metric
        directions = {"loss": False, **task.higher_is_better, target.metric: target.higher_is_better}
        name = metric or target.metric
        curve = self.evaluations.curves.get(name, [])
        return {LATE_GAIN: late_gain(curve, higher_is_better=directions[name], resolution=resolution)}

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return sum(weight.numel() for weight in self.run.model.parameters() if weight.requires_grad)


@contextmanager
def train_small(task: str, settings: Sequence[str], *, steps: int, seed: int) -> Iterator[TrainedModel]:
    """Train with the settings of a recipe for `steps` steps; the run folder exists inside the block."""
    all_settings = [
        *("training.schedule.name=cosine", f"training.schedule.warmup={max(1, steps // 10)}"),
        *settings,
        *(f"seed={seed}", f"training.steps={steps}", f"training.evaluation.every={-(-steps // NUM_EVALUATIONS)}"),
        *(f"training.files.log_every={steps}", "training.hardware.device=cpu"),
        "training.hardware.precision=float32",
    ]
    with TemporaryDirectory(prefix="regard-experiment-") as folder:
        try:
            run = train(read(task, settings=all_settings), Path(folder) / "run", console=SilentConsole())
        except Interrupted as interrupted:
            error = Interrupted(STOPPED)
            error.code = interrupted.code
            raise error from None
        yield TrainedModel(load_run(run, trust=True), read_evaluations(run / "log.jsonl"))


def read_evaluations(log: Path) -> Evaluations:
    """Read the validation metrics from the log of a run."""
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    evaluated = [row for row in rows if "valid" in row]
    best = [row for row in evaluated if row.get("best")] or evaluated
    curves: dict[str, list[float]] = {}
    for row in evaluated:
        for name, value in _numbers(row["valid"]).items():
            curves.setdefault(name, []).append(value)
    return Evaluations(_numbers(best[-1]["valid"]), curves)


def _numbers(metrics: dict[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if value is not None}


def step_milliseconds(run: LoadedRun, *, repeats: int = 5) -> float:
    """Return the median processor time of loss and gradient of a batch."""
    task, model, seconds = run.task, run.model, []
    plan = task.epoch_batches(0, 1)
    model.train()
    for index in range(repeats + 1):
        batch = task.collate(plan[index % len(plan)])
        started_at = time.process_time()
        loss = task.loss(model, batch)
        torch.autograd.grad(loss.total, [w for w in model.parameters() if w.requires_grad], allow_unused=True)
        seconds.append(time.process_time() - started_at)
    model.eval()
    return 1000 * median(seconds[1:])
