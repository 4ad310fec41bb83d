"""Evaluation during training: free-running scores, the best weights kept, and the mean of the last ones tried."""

from __future__ import annotations

import math
import time

import torch
from torch import nn

from regard.core.errors import ConfigError
from regard.core.progress import progress_callback
from regard.core.protocols import TargetMetric
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.training import checkpoint, tensor_files
from regard.training.checkpoint import BestEvaluation, Progress
from regard.training.console import Console, LogRow
from regard.training.distributed import Processes, TrainingEngine
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder, read_identity

_EVALUATION = 2**32  # stands where training seeds have the process number


def selection_metric(recipe: Recipe, task: Task) -> TargetMetric:
    """The score by which the best weights are chosen: the task's own, or that of training.evaluation.metric."""
    config = recipe.training.evaluation
    metric = config.metric or task.target_metric.metric
    directions = {**task.higher_is_better, task.target_metric.metric: task.target_metric.higher_is_better}
    more = config.higher_is_better if config.higher_is_better is not None else directions.get(metric)
    if more is None:
        raise ConfigError(
            f"training.evaluation.metric={metric}: the task does not say whether more of it is better; set "
            f"training.evaluation.higher_is_better=true or false, or choose among {', '.join(sorted(directions))}"
        )
    return TargetMetric(metric, more)


class Evaluator:
    """Scores the model on the validation data and decides which weights are kept."""

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
        self._seconds: float | None = None  # that the last evaluation took

    def evaluate(self, progress: Progress) -> LogRow:
        """Score the model, keep its weights if they are the best so far; the row for the log."""
        metrics = self._metrics(progress.step)
        better = self._keep_if_best(progress, metrics)
        self._keep_snapshot(progress)
        return {"step": progress.step, "epoch": progress.current_epoch, "valid": metrics, "best": better}

    def evaluate_averaged(self, progress: Progress) -> LogRow | None:
        """Score the mean of the last evaluations' weights; keep it if it is better than the best of them."""
        if len(progress.snapshots) < 2:
            return None
        own = {name: tensor.clone() for name, tensor in checkpoint.model_weights(self.engine.model).items()}
        mean = checkpoint.mean_weights(
            [self.folder.snapshot(step) for step in progress.snapshots], read_identity(self.folder)
        )
        checkpoint.restore_weights(self.engine.model, mean, self.folder.state)
        metrics = self._metrics(progress.step)
        better = self._keep_if_best(progress, metrics)
        checkpoint.restore_weights(self.engine.model, own, self.folder.state)
        return {"step": progress.step, "average": len(progress.snapshots), "valid": metrics, "best": better}

    def _metrics(self, step: int) -> dict[str, float]:
        """The first process evaluates while the others wait."""
        metrics: dict[str, float] = {}
        model = self._whole()
        if self.processes.is_main_process:
            seed_all(self.recipe.seed, step, _EVALUATION)
            model.eval()
            began = time.monotonic()
            self.console.show_evaluation(0.0, self._seconds)
            with torch.no_grad(), progress_callback(lambda share: self.console.show_evaluation(share, self._seconds)):
                metrics = self.task.evaluate(model, "valid", self.recipe.decoding)
            self._seconds = time.monotonic() - began
        if self.engine.gathered_model is not None:
            self.engine.gathered_model.to("cpu")  # its place on the device is needed for training
        self.processes.barrier()
        return {name: float(value) for name, value in metrics.items()}

    def _whole(self) -> nn.Module:
        """The model as one process can use it alone: if it is sharded, its twin with the weights gathered."""
        twin = self.engine.gathered_model
        if twin is None:
            return self.engine.model
        tensors = checkpoint.model_weights(self.engine.model)
        if self.processes.is_main_process:
            checkpoint.restore_weights(twin.to(self.processes.device), tensors, self.folder.state)
        return twin

    def _keep_if_best(self, now: Progress, metrics: dict[str, float]) -> bool:
        score, best = self._score(metrics), now.best
        loss = metrics.get("loss")
        better = score is not None and (best.score is None or score > best.score or _wins(score, loss, best))
        better = self.processes.broadcast_from_main(better)
        best.since = 0 if better else best.since + 1
        if better:
            best.step, best.score, best.metrics, best.loss = now.step, score, metrics, loss
        nothing_yet = self.processes.broadcast_from_main(best.score is None)
        if better or nothing_yet:
            self.write_model(now)
        return better

    def _score(self, metrics: dict[str, float]) -> float | None:
        """One number that grows as the model gets better, or none if there was nothing to evaluate."""
        if not metrics:
            return None
        name, more = self.target_metric
        if name not in metrics:
            raise ConfigError(f"the task's evaluation has no {name!r} to choose by; it has {', '.join(metrics)}")
        value = metrics[name] if more else -metrics[name]
        return value if math.isfinite(value) else None

    def write_model(self, progress: Progress) -> None:
        """The weights as the run's model.safetensors."""
        tensors = checkpoint.model_weights(self.engine.model)
        if self.processes.is_main_process:
            facts = {"run": progress.run, "step": progress.step, "metrics": progress.best.metrics}
            tensor_files.write_tensors(self.folder.model, tensors, facts)

    def _keep_snapshot(self, now: Progress) -> None:
        last = self.recipe.training.evaluation.average_last
        if last:
            now.snapshots = [*now.snapshots, now.step][-last:]
            tensors = checkpoint.model_weights(self.engine.model)
            if self.processes.is_main_process:
                tensor_files.write_tensors(self.folder.snapshot(now.step), tensors, {"run": now.run, "step": now.step})
            self.processes.barrier()


def _wins(score: float, loss: float | None, best: BestEvaluation) -> bool:
    """Of two equal scores the one with the lower loss is better: while a score is still 0, the loss already falls."""
    if score != best.score or loss is None or not math.isfinite(loss):
        return False
    return best.loss is None or loss < best.loss
