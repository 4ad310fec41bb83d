"""Validation during training: compute metrics, store the best weights, and finally try the average of the last ones."""

from __future__ import annotations

import math
import time

import torch
from torch import nn

from regard.core.errors import ConfigError
from regard.core.example_statistics import Collected, collect_statistics
from regard.core.progress import progress_callback
from regard.core.protocols import TargetMetric
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.training import checkpoint, confidence_intervals, selection, tensor_files
from regard.training.checkpoint import Progress
from regard.training.console import Console, LogRow
from regard.training.distributed import Processes, TrainingEngine
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder, read_identity
from regard.training.selection import Candidate, Decision

_EVALUATION_STREAM = 2**32  # used as the rank when evaluation is seeded; larger than any rank


def selection_metric(recipe: Recipe, task: Task) -> TargetMetric:
    """Return the metric that selects the best weights: training.evaluation.metric, or the task's target metric."""
    config = recipe.training.evaluation
    metric = config.metric or task.target_metric.metric
    directions = {**task.higher_is_better, task.target_metric.metric: task.target_metric.higher_is_better}
    higher_is_better = config.higher_is_better
    if higher_is_better is None:
        higher_is_better = directions.get(metric)
    if higher_is_better is None:
        raise ConfigError(
            f"training.evaluation.metric={metric}: the task does not define its direction; set "
            f"training.evaluation.higher_is_better=true or false, or choose one of {', '.join(sorted(directions))}"
        )
    return TargetMetric(metric, higher_is_better)


class Evaluator:
    """Evaluates the model on the validation data and writes the best weights."""

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        *,
        engine: TrainingEngine,
        folder: RunFolder,
        processes: Processes,
        console: Console,
    ) -> None:
        self.recipe, self.task, self.engine = recipe, task, engine
        self.folder, self.processes, self.console = folder, processes, console
        self.target_metric = selection_metric(recipe, task)
        self._previous_s: float | None = None  # duration of the last evaluation
        self._statistics: Collected = {}  # of the last evaluation

    def evaluate(self, progress: Progress) -> LogRow:
        """Evaluate the model, store its weights if they are the best so far, and return the log row."""
        metrics = self._metrics(progress.step)
        decision = self._write_if_best(progress, metrics)
        self._write_snapshot(progress)
        row: LogRow = {"step": progress.step, "epoch": progress.current_epoch, "valid": metrics}
        return row | {"best": decision.is_best, "rule": decision.rule}

    def evaluate_averaged(self, progress: Progress) -> LogRow | None:
        """Evaluate the mean of the last snapshots; store it if it is better than the best weights so far."""
        if len(progress.snapshots) < 2:
            return None
        current = {name: tensor.clone() for name, tensor in checkpoint.model_weights(self.engine.model).items()}
        mean = checkpoint.mean_weights(
            [self.folder.snapshot(step) for step in progress.snapshots], read_identity(self.folder)
        )
        checkpoint.restore_weights(self.engine.model, mean, self.folder.state)
        metrics = self._metrics(progress.step)
        decision = self._write_if_best(progress, metrics)
        checkpoint.restore_weights(self.engine.model, current, self.folder.state)
        row: LogRow = {"step": progress.step, "average": len(progress.snapshots), "valid": metrics}
        return row | {"best": decision.is_best, "rule": decision.rule}

    def _metrics(self, step: int) -> dict[str, float]:
        """Evaluate on the main process while the other processes wait."""
        metrics: dict[str, float] = {}
        model = self._unsharded_model()
        if self.processes.is_main_process:
            seed_all(self.recipe.seed, step, _EVALUATION_STREAM)
            model.eval()
            started_at = time.monotonic()
            self.console.show_evaluation(0.0, self._previous_s)
            with (
                torch.no_grad(),
                progress_callback(lambda fraction: self.console.show_evaluation(fraction, self._previous_s)),
                collect_statistics() as self._statistics,
            ):
                metrics = self.task.evaluate(model, "valid", self.recipe.decoding)
            self._previous_s = time.monotonic() - started_at
        if self.engine.gathered_model is not None:
            self.engine.gathered_model.to("cpu")  # training needs the device memory
        self.processes.barrier()
        return {name: float(value) for name, value in metrics.items()}

    def _unsharded_model(self) -> nn.Module:
        """Return the model, or if it is sharded, a complete copy with the weights gathered from all processes."""
        gathered = self.engine.gathered_model
        if gathered is None:
            return self.engine.model
        tensors = checkpoint.model_weights(self.engine.model)
        if self.processes.is_main_process:
            checkpoint.restore_weights(gathered.to(self.processes.device), tensors, self.folder.state)
        return gathered

    def _write_if_best(self, progress: Progress, metrics: dict[str, float]) -> Decision:
        best, candidate = progress.best, self._candidate(metrics)
        decision = selection.decide(candidate, best)
        is_best = self.processes.broadcast_from_main(decision.is_best)
        score = candidate.score
        is_highest = score is not None and (best.highest is None or score > best.highest)
        best.since = 0 if self.processes.broadcast_from_main(is_best or is_highest) else best.since + 1
        if is_highest:
            best.highest = score
        if is_best:
            best.step, best.score, best.metrics, best.loss = progress.step, score, metrics, metrics.get("loss")
            best.rule = decision.rule
        has_no_score = self.processes.broadcast_from_main(best.score is None)
        if is_best or has_no_score:
            self.write_model(progress)
        return Decision(is_best, decision.rule)

    def _candidate(self, metrics: dict[str, float]) -> Candidate:
        """Return what is compared: the selection metric, its standard error, and the validation loss."""
        name, score = self.target_metric.metric, self._score(metrics)
        loss = metrics.get("loss") if name != "loss" else None
        floor = self.task.noise_floor.get(name)
        error = confidence_intervals.standard_error(self._statistics.get(name)) if loss is not None else 0.0
        return Candidate(name, score, loss, standard_error=error, noise_floor=floor)

    def _score(self, metrics: dict[str, float]) -> float | None:
        """Return the selection metric with its sign adjusted so that higher is better; None without validation data."""
        if not metrics:
            return None
        name, higher_is_better = self.target_metric
        if name not in metrics:
            raise ConfigError(
                f"training.evaluation.metric={name}: not computed by the task; choose one of {', '.join(metrics)}"
            )
        value = metrics[name] if higher_is_better else -metrics[name]
        return value if math.isfinite(value) else None

    def write_model(self, progress: Progress) -> None:
        """Write the weights to model.safetensors of the run."""
        tensors = checkpoint.model_weights(self.engine.model)
        if self.processes.is_main_process:
            metadata = {"run": progress.run, "step": progress.step, "metrics": progress.best.metrics}
            tensor_files.write_tensors(self.folder.model, tensors, metadata)

    def _write_snapshot(self, progress: Progress) -> None:
        last = self.recipe.training.evaluation.average_last
        if last:
            progress.snapshots = [*progress.snapshots, progress.step][-last:]
            tensors = checkpoint.model_weights(self.engine.model)
            if self.processes.is_main_process:
                metadata = {"run": progress.run, "step": progress.step}
                tensor_files.write_tensors(self.folder.snapshot(progress.step), tensors, metadata)
            self.processes.barrier()
