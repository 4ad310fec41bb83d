"""A small model of an experiment: trained by the trainer of every run, in a folder that is thrown away afterwards."""

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
    """What became of a training."""

    parts: LoadedRun
    scores: dict[str, float]  # of the last weights, on the validation data

    @property
    def parameters(self) -> int:
        """How many numbers were trained."""
        return sum(weight.numel() for weight in self.parts.model.parameters() if weight.requires_grad)


@contextmanager
def train_small(task: str, settings: Sequence[str], *, steps: int, seed: int) -> Iterator[TrainedModel]:
    """Train with settings as a recipe has them, for so many steps; the run is there inside the block."""
    given = [
        *("training.schedule.name=cosine", f"training.schedule.warmup={max(1, steps // 10)}"),
        *settings,
        *(f"seed={seed}", f"training.steps={steps}", f"training.evaluation.every={steps}"),
        *(f"training.files.log_every={steps}", "training.hardware.device=cpu"),
    ]
    with TemporaryDirectory(prefix="regard-experiment-") as folder:
        try:
            run = train(read(task, settings=given), Path(folder) / "run", console=SilentConsole())
        except Interrupted as stopped:
            again = Interrupted(STOPPED)
            again.code = stopped.code
            raise again from None
        yield TrainedModel(load_run(run, trust=True), _scores(run))


def _scores(run: Path) -> dict[str, float]:
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return {name: float(value) for row in rows for name, value in row.get("valid", {}).items() if value is not None}


def step_milliseconds(parts: LoadedRun, *, repeats: int = 5) -> float:
    """Processor time of loss and gradient of a batch, the median of some batches."""
    task, model, taken = parts.task, parts.model, []
    plan = task.epoch_batches(0, 1)
    model.train()
    for number in range(repeats + 1):
        batch = task.collate(plan[number % len(plan)])
        begun = time.process_time()
        loss = task.loss(model, batch)
        torch.autograd.grad(loss.total, [w for w in model.parameters() if w.requires_grad], allow_unused=True)
        taken.append(time.process_time() - begun)
    model.eval()
    return 1000 * median(taken[1:])
