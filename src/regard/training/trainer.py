"""The training loop: steps over the batches of each epoch, log rows, evaluations and checkpoints.

The task defines batches, loss and metrics. A single step is in step.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from regard.core.errors import DataError
from regard.core.protocols import Indices
from regard.core.task import Task
from regard.training import checkpoint, optimizer, plan_warnings, summary
from regard.training.checkpoint import LogWindow, Progress
from regard.training.console import Console, LogRow, format_duration, format_row
from regard.training.device import CompiledLoss
from regard.training.distributed import Processes, TrainingEngine
from regard.training.evaluator import Evaluator
from regard.training.log import NullReporter, Reporter, TensorBoardWriter, Throughput, move_aside
from regard.training.optimizer import schedule
from regard.training.precision import format_dtype, resolve_dtype, resume_dtype
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder, RunIdentity
from regard.training.step import Diverged, Stepper, StepResult, explain_nonfinite, write_nonfinite
from regard.training.stop_signals import Interrupted, StopRequest


class StepCallback(Protocol):
    """Called after each step. It may run the model but must not change it."""

    def __call__(self, recipe: Recipe, task: Task, *, model: nn.Module, run: Path, step: int, last: bool) -> None: ...


def no_callback(recipe: Recipe, task: Task, *, model: nn.Module, run: Path, step: int, last: bool) -> None:
    """No-op callback."""


class Trainer:
    """Training loop of one process."""

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        *,
        engine: TrainingEngine,
        folder: RunFolder,
        processes: Processes,
        console: Console,
        step_callback: StepCallback = no_callback,
    ) -> None:
        self.recipe, self.task, self.engine = recipe, task, engine
        self.folder, self.processes, self.console, self.step_callback = folder, processes, console, step_callback
        self.config = recipe.training
        self.optimizer = optimizer.build(self.config.optimizer, engine.model)
        self.evaluator = Evaluator(recipe, task, engine=engine, folder=folder, processes=processes, console=console)
        self.progress, self.dtype = Progress(), torch.float32
        self.batches: Sequence[Indices] = ()
        self.reporter: Reporter | NullReporter = NullReporter()
        self._throughput = Throughput()
        self._started_at = time.monotonic()
        self._first_step = 0  # last step before this process started
        self._eta_printed = False  # True once the estimated time was printed
        self._row_shown = False  # True while the progress bar shows a log row

    def restore(
        self, path: Path | None, *, identity: RunIdentity, initial_s: float = 0.0, new_log: bool = False
    ) -> None:
        """Restore the state of a checkpoint, or the initial state if `path` is None; `new_log` starts a new log.

        The seconds in which parts were fitted to the data before the first step count as training time.
        """
        self.progress.seconds = initial_s
        if path is not None:
            self.progress = checkpoint.load(path, self.engine.model, optimizer=self.optimizer, identity=identity)
            self.progress.best = self.progress.best.in_shares(self.recipe.task.name)
        self.progress.run, self._first_step = identity.run_id, self.progress.step
        if new_log and self.processes.is_main_process:
            old_log = move_aside(self.folder.log)
            self.progress.log = Progress().log
            self.console.print_line(f"starting a new log; the old log is {old_log.name if old_log else 'missing'}")
        self._started_at = time.monotonic() - self.progress.seconds
        if path is not None:  # an ended run continues with a larger budget; a new one trains at least one step
            time_used = self.processes.broadcast_from_main(self._time_used())
            self.progress.ended = self._end_reason(time_used=time_used)
        self._read_batches()
        if self.processes.is_main_process:
            tensorboard = (
                TensorBoardWriter(self.folder.events, self.progress.step) if self.config.files.tensorboard else None
            )
            self.reporter = Reporter(
                self.folder,
                self.console,
                position=self.progress.log,
                tensorboard=tensorboard,
                throughput_unit=self.task.throughput_unit,
            )
            if not self.progress.log["bytes"] and self.progress.run is not None:
                self.reporter.log_only({"step": self.progress.step, "run": self.progress.run})
            if path is None:
                self.reporter.add_initial_time(initial_s)
        self._use(self._resolve_dtype())

    def fit(self, stop: StopRequest) -> Progress:
        """Train until a limit is reached. Raise Interrupted, after saving, if a stop was requested."""
        progress, stepper = self.progress, self._stepper()
        if progress.ended is not None:
            self.console.print_line(summary.finished(self.folder.path, progress.ended, self.config))
        while progress.ended is None:
            started_at, examples = time.monotonic(), self.batches[progress.index]
            result = stepper(examples, step=progress.step + 1, flags=lambda: (bool(stop), self._time_used()))
            self._use(stepper.dtype)
            self._throughput.seconds += time.monotonic() - started_at
            self._throughput.count += result.tokens
            epoch_ended = self._advance(result, examples)
            self._write_row(result)
            progress.ended = self._end_reason(time_used=result.flags[1])
            evaluated = self._evaluate(epoch_ended)
            self._call_back()
            if progress.ended is not None:
                self._finish()
            interrupted = result.flags[0] and progress.ended is None
            if evaluated or interrupted or _due(progress.step, self.config.files.save_every):
                self.save()
            if interrupted:
                reason = stop.reason or "another process"
                raise Interrupted(
                    f"stopped by {reason} at step {progress.step}, everything is saved; continue with",
                    stop.reason,
                    command=f"regard train --resume {self.folder.path}",
                    python=f"regard.resume({str(self.folder.path)!r})",
                )
        return progress

    def save(self) -> None:
        """Write a checkpoint, then remove old ones."""
        progress = self.progress
        progress.seconds = time.monotonic() - self._started_at
        progress.log = self.reporter.position()
        if self.processes.broadcast_from_main(progress.best.score is None):
            self.evaluator.write_model(progress)
        checkpoint.save(
            self.folder,
            self.engine.model,
            optimizer=self.optimizer,
            progress=progress,
            write=self.processes.is_main_process,
        )
        if self.processes.is_main_process:
            checkpoint.prune(self.folder, progress, keep=self.config.files.keep_checkpoints)

    def _stepper(self) -> Stepper:
        loss = self.task.loss
        factor = schedule(
            self.config.schedule, self._planned_steps() if self.config.schedule.name == "cosine" else None
        )
        return Stepper(
            self.recipe,
            self.task,
            engine=self.engine,
            optimizer=self.optimizer,
            lr_factor=factor,
            processes=self.processes,
            dtype=self.dtype,
            loss=CompiledLoss(loss, self.console.print_line) if self.config.hardware.compile else loss,
        )

    def _resolve_dtype(self) -> torch.dtype:
        name, device, model = self.config.hardware.precision, self.processes.device, self.engine.model
        if not self.progress.step:
            return resolve_dtype(name, device, model)
        return resume_dtype(name, device, model, used=self.progress.precision)

    def _use(self, dtype: torch.dtype) -> None:
        """Log the number format of the steps after `progress.step` if it is new; say so if others preceded."""
        self.dtype, name, previous = dtype, format_dtype(dtype), self.progress.precision
        if name == previous:
            return
        self.progress.precision = name
        self.reporter.log_only({"step": self.progress.step, "precision": name})
        if previous:
            self.console.print_line(f"from step {self.progress.step + 1} in {name}, before in {previous}")

    def _read_batches(self) -> None:
        """Read the batches of this epoch; raise a DataError if they differ from those trained on so far."""
        progress = self.progress
        self.batches = self.task.epoch_batches(progress.epoch, self.recipe.seed)
        if not len(self.batches):
            raise DataError("the training data has no batches; provide more data or a larger batch size")
        checksum = checkpoint.batches_checksum(self.batches)
        if progress.index and progress.plan and progress.plan != checksum:
            raise DataError(
                f"the batches of this epoch differ from those {self.folder.path} was trained on so far; continue with "
                "the version of regard that started it, or start a new run"
            )
        progress.plan = checksum

    def _advance(self, result: StepResult, examples: Indices) -> bool:
        """Count the step; return True if it was the last of its epoch."""
        progress = self.progress
        progress.step, progress.index = progress.step + 1, progress.index + 1
        progress.skipped = 0 if result.is_finite else progress.skipped + 1
        if result.is_finite:
            progress.window.loss += result.loss
            progress.window.tokens += result.tokens
            for name, value in result.loss_parts.items():
                progress.window.parts[name] = progress.window.parts.get(name, 0.0) + value
        else:
            self._handle_nonfinite(result, examples)
        epoch_ended = progress.index == len(self.batches)
        if epoch_ended:
            progress.epoch, progress.index = progress.epoch + 1, 0
            self._read_batches()
        return epoch_ended

    def _handle_nonfinite(self, result: StepResult, examples: Indices) -> None:
        progress = self.progress
        progress.window.skipped += 1
        has_diverged = progress.skipped >= len(self.batches)  # a complete epoch of batches was skipped
        if self.config.optimizer.on_nonfinite == "stop" or has_diverged:
            if self.processes.is_main_process:
                write_nonfinite(self.folder, self.task, examples=examples, result=result, progress=progress)
            raise Diverged(explain_nonfinite(self.folder, progress, result))

    def _write_row(self, result: StepResult) -> None:
        progress, window = self.progress, self.progress.window
        self.console.set_progress(self._fraction_done())
        self._report_eta()
        if _due(progress.step, self.config.files.log_every):
            tokens = max(1, window.tokens)
            row: LogRow = {"step": progress.step, "epoch": progress.current_epoch}
            row["loss"] = window.loss / tokens if window.tokens else float("nan")
            row |= {name: value / tokens for name, value in window.parts.items()}
            row |= {"lr": result.lr, "norm": result.grad_norm}
            row |= {"skipped": window.skipped} if window.skipped else {}
            self.reporter.add(row, throughput=self._throughput, remaining_s=self._remaining_s())
            progress.window, self._throughput, self._row_shown = LogWindow(), Throughput(), True
        elif not self._row_shown:
            loss = result.loss / max(1, result.tokens)
            self.console.set_status(
                format_row({"step": progress.step, "epoch": progress.current_epoch, "loss": loss}, self._remaining_s())
            )

    def _report_eta(self) -> None:
        """Print the estimated remaining time once, after enough steps were timed; not if training.minutes is set."""
        steps, seconds = self.progress.step - self._first_step, self._throughput.seconds
        if self._eta_printed or self.config.minutes is not None or steps < 3 or seconds < 3.0:
            return
        self._eta_printed = True
        remaining_s = self._remaining_s()
        if remaining_s is not None:
            self.console.print_line(
                f"about {format_duration(remaining_s)} remaining, estimated from {steps} steps, without evaluation"
            )

    def _call_back(self) -> None:
        """Call the step callback on the main process, unless the model is sharded: one process cannot run it alone."""
        if self.processes.is_main_process and self.engine.gathered_model is None:
            step, last = self.progress.step, self.progress.ended is not None
            self.step_callback(
                self.recipe, self.task, model=self.engine.model, run=self.folder.path, step=step, last=last
            )

    def _evaluate(self, epoch_ended: bool) -> bool:
        """Evaluate if an evaluation is due or training has ended; return True if it did."""
        progress, every = self.progress, self.config.evaluation.every
        if not (epoch_ended if every is None else _due(progress.step, every)) and progress.ended is None:
            return False
        self.reporter.add(self.evaluator.evaluate(progress))
        progress.evaluations += 1
        self._row_shown = False
        if progress.ended is None:
            progress.ended = self._end_reason(time_used=False)
        return True

    def _finish(self) -> None:
        row = self.evaluator.evaluate_averaged(self.progress)
        if row is not None:
            self.reporter.add(row)
        progress = self.progress
        if progress.skipped and progress.skipped == progress.step:
            raise Diverged(
                f"the loss of none of the {progress.step} batches was finite, so nothing was learned; lower "
                "training.optimizer.lr, or check the data"
            )
        for warning in plan_warnings.at_end(self.config, progress, total=self._planned_steps()):
            self.console.print_line(warning)
        self.reporter.log_only({"step": progress.step, "end": progress.ended})
        self.console.print_line(
            f"stopped after step {progress.step}: {summary.end_reason(progress.ended or '', self.config)}"
        )

    def _end_reason(self, *, time_used: bool) -> str | None:
        """Return the limit that ends training here, or None."""
        progress, config, patience = self.progress, self.config, self.config.evaluation.patience
        reasons = {
            "steps": config.steps is not None and progress.step >= config.steps,
            "epochs": config.epochs is not None and progress.epoch >= config.epochs,
            "minutes": time_used,
            "patience": patience is not None and progress.best.since >= patience,
        }
        return next((name for name, is_reached in reasons.items() if is_reached), None)

    def _time_used(self) -> bool:
        """Return True if training.minutes are over, by the clock of the main process."""
        minutes = self.config.minutes
        return (
            self.processes.is_main_process
            and minutes is not None
            and time.monotonic() - self._started_at >= 60 * minutes
        )

    def _planned_steps(self) -> int | None:
        """Return the last step according to steps and epochs; None if only minutes limit training."""
        steps_per_epoch = len(self.task.epoch_batches(0, self.recipe.seed)) if self.config.epochs else 0
        return plan_warnings.planned_steps(self.config, steps_per_epoch)

    def _fraction_done(self) -> float:
        """Return the completed fraction of the run."""
        progress, config = self.progress, self.config
        epochs = progress.epoch + progress.index / len(self.batches)
        minutes = (time.monotonic() - self._started_at) / 60
        limits = ((progress.step, config.steps), (epochs, config.epochs), (minutes, config.minutes))
        return min(1.0, max(done / total for done, total in limits if total))

    def _remaining_s(self) -> float | None:
        """Estimate the remaining seconds."""
        done, used = self._fraction_done(), time.monotonic() - self._started_at
        return used / done * (1 - done) if done else None


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
