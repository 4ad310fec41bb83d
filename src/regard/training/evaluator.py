"""Evaluation during training: free-running scores, the best weights kept, and the mean of the last ones tried."""

from __future__ import annotations

import math

import torch
from torch import nn

from regard.core.errors import ConfigError
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.training import checkpoint, sealed
from regard.training.checkpoint import Progress
from regard.training.console import Row
from regard.training.folder import Folder
from regard.training.processes import Engine, Processes
from regard.training.recipe import Recipe

_EVALUATION = 2**32  # stands where training seeds have the process number


class Evaluator:
    """Scores the model on the validation data and decides which weights are kept."""

    def __init__(self, recipe: Recipe, task: Task, *, engine: Engine, folder: Folder, processes: Processes) -> None:
        self.recipe, self.task, self.engine = recipe, task, engine
        self.folder, self.processes = folder, processes

    def evaluate(self, now: Progress) -> Row:
        """Score the model, keep its weights if they are the best so far; the row for the log."""
        metrics = self._metrics(now.step)
        better = self._keep_if_best(now, metrics)
        self._keep_snapshot(now)
        return {"step": now.step, "epoch": now.epoch, "valid": metrics, "best": better}

    def evaluate_mean(self, now: Progress) -> Row | None:
        """Score the mean of the last evaluations' weights; keep it if it is better than the best of them."""
        if len(now.snapshots) < 2:
            return None
        own = {name: tensor.clone() for name, tensor in checkpoint.weights(self.engine.model).items()}
        mean = checkpoint.mean([self.folder.snapshot(step) for step in now.snapshots])
        checkpoint.restore_weights(self.engine.model, mean, self.folder.state)
        metrics = self._metrics(now.step)
        better = self._keep_if_best(now, metrics)
        checkpoint.restore_weights(self.engine.model, own, self.folder.state)
        return {"step": now.step, "average": len(now.snapshots), "valid": metrics, "best": better}

    def _metrics(self, step: int) -> dict[str, float]:
        """The first process evaluates while the others wait."""
        metrics: dict[str, float] = {}
        model = self._whole()
        if self.processes.first:
            seed_all(self.recipe.seed, step, _EVALUATION)
            model.eval()
            with torch.no_grad():
                metrics = self.task.evaluate(model, "valid", self.recipe.decoding)
        if self.engine.twin is not None:
            self.engine.twin.to("cpu")  # its place on the device is needed for training
        self.processes.wait()
        return {name: float(value) for name, value in metrics.items()}

    def _whole(self) -> nn.Module:
        """The model as one process can use it alone: if it is sharded, its twin with the weights gathered."""
        twin = self.engine.twin
        if twin is None:
            return self.engine.model
        tensors = checkpoint.weights(self.engine.model)
        if self.processes.first:
            checkpoint.restore_weights(twin.to(self.processes.device), tensors, self.folder.state)
        return twin

    def _keep_if_best(self, now: Progress, metrics: dict[str, float]) -> bool:
        score = self._score(metrics)
        better = score is not None and (now.best.score is None or score > now.best.score)
        better = self.processes.agree(better)
        now.best.since = 0 if better else now.best.since + 1
        if better:
            now.best.step, now.best.score, now.best.metrics = now.step, score, metrics
        nothing_yet = self.processes.agree(now.best.score is None)
        if better or nothing_yet:
            self.write_model(now)
        return better

    def _score(self, metrics: dict[str, float]) -> float | None:
        """One number that grows as the model gets better, or none if there was nothing to evaluate."""
        if not metrics:
            return None
        name, more = self.task.goal
        if name not in metrics:
            raise ConfigError(f"the task's evaluation has no {name!r} to choose by; it has {', '.join(metrics)}")
        value = metrics[name] if more else -metrics[name]
        return value if math.isfinite(value) else None

    def write_model(self, now: Progress) -> None:
        """The weights as the run's model.safetensors."""
        tensors = checkpoint.weights(self.engine.model)
        if self.processes.first:
            sealed.write_tensors(self.folder.model, tensors, {"step": now.step, "metrics": now.best.metrics})

    def _keep_snapshot(self, now: Progress) -> None:
        last = self.recipe.training.evaluation.average
        if last:
            now.snapshots = [*now.snapshots, now.step][-last:]
            tensors = checkpoint.weights(self.engine.model)
            if self.processes.first:
                sealed.write_tensors(self.folder.snapshot(now.step), tensors, {"step": now.step})
            self.processes.wait()
