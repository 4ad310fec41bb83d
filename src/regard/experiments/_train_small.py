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
from regard.training.console import SilentConsole
from regard.training.load_run import LoadedRun, load_run
from regard.training.recipe import read
from regard.training.signals import Interrupted
from regard.training.train import train


class TrainedModel(NamedTuple):
    """A trained model and its validation metrics."""

    run: LoadedRun
    scores: dict[str, float]  # of the last weights on the validation data

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
        *(f"seed={seed}", f"training.steps={steps}", f"training.evaluation.every={steps}"),
        *(f"training.files.log_every={steps}", "training.hardware.device=cpu"),
    ]
    with TemporaryDirectory(prefix="regard-experiment-") as folder:
        try:
            run = train(read(task, settings=all_settings), Path(folder) / "run", console=SilentConsole())
        except Interrupted as interrupted:
            error = Interrupted(STOPPED)
            error.code = interrupted.code
            raise error from None
        yield TrainedModel(load_run(run, trust=True), _read_scores(run))


def _read_scores(run: Path) -> dict[str, float]:
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return {name: float(value) for row in rows for name, value in row.get("valid", {}).items() if value is not None}


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
