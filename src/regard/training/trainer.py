"""The training loop: a step for each batch of the task's plan, and now and then a log row, evaluation and checkpoint.

What a batch, a loss and a score are, only the task knows. One step is in step.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from torch import nn

from regard.core.errors import DataError
from regard.core.protocols import Indices
from regard.core.task import Task
from regard.training import checkpoint, optimizer, summary
from regard.training.checkpoint import LogWindow, Progress
from regard.training.console import Console, LogRow, format_duration, format_row
from regard.training.device import CompiledLoss
from regard.training.distributed import Processes, TrainingEngine
from regard.training.evaluator import Evaluator
from regard.training.log import NullReporter, Reporter, TensorBoardWriter, Throughput, move_aside
from regard.training.optimizer import schedule
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder, RunIdentity
from regard.training.signals import Interrupted, StopRequest
from regard.training.step import Diverged, Stepper, StepResult, explain_nonfinite, write_nonfinite


class StepCallback(Protocol):
    """Called after each step. It may look at the model but leaves it as it was."""

    def __call__(self, recipe: Recipe, task: Task, *, model: nn.Module, run: Path, step: int, last: bool) -> None: ...


def no_callback(recipe: Recipe, task: Task, *, model: nn.Module, run: Path, step: int, last: bool) -> None:
    """The watch of a run that nobody watches."""


class Trainer:
    """One process's part in a run."""

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
        self.progress = Progress()
        self.batches: Sequence[Indices] = ()
        self.reporter: Reporter | NullReporter = NullReporter()
        self._pace = Throughput()
        self._birth = time.monotonic()
        self._first = 0  # the step this process began after
        self._foretold = False  # whether it was said how long it will take
        self._row_shown = False  # whether the bar shows a row of the log

    def restore(self, path: Path | None, *, identity: RunIdentity, new_log: bool = False) -> None:
        """Go to where a checkpoint stood, or to the very beginning; with a new log if the old one is set aside."""
        if path is not None:
            self.progress = checkpoint.load(path, self.engine.model, optimizer=self.optimizer, identity=identity)
        self.progress.run, self._first = identity.run_id, self.progress.step
        if new_log and self.processes.is_main_process:
            aside = move_aside(self.folder.log)
            self.progress.log = Progress().log
            self.console.print_line(f"a new log is begun; the old one is {aside.name if aside else 'gone'}")
        self._birth = time.monotonic() - self.progress.seconds
        time_used = self.processes.broadcast_from_main(self._time_used())
        self.progress.ended = self._over(time_used=time_used)  # a larger budget lets an ended run go on
        self._read_plan()
        if self.processes.is_main_process:
            board = TensorBoardWriter(self.folder.events, self.progress.step) if self.config.files.tensorboard else None
            position, counted = self.progress.log, self.task.throughput_unit
            self.reporter = Reporter(
                self.folder, self.console, position=position, tensorboard=board, throughput_unit=counted
            )
            if not self.progress.log["bytes"] and self.progress.run is not None:
                self.reporter.log_only({"step": self.progress.step, "run": self.progress.run})

    def fit(self, stop: StopRequest) -> Progress:
        """Train until a budget is used up; Interrupted if a stop was asked for, with everything saved."""
        now, stepper = self.progress, self._stepper()
        while now.ended is None:
            began, examples = time.monotonic(), self.batches[now.index]
            outcome = stepper(examples, step=now.step + 1, flags=lambda: (bool(stop), self._time_used()))
            self._pace.seconds += time.monotonic() - began
            self._pace.count += outcome.tokens
            epoch_ended = self._advance(outcome, examples)
            self._write_row(outcome)
            now.ended = self._over(time_used=outcome.flags[1])
            evaluated = self._evaluate(epoch_ended)
            self._be_watched()
            if now.ended is not None:
                self._finish()
            interrupted = outcome.flags[0] and now.ended is None
            if evaluated or interrupted or _due(now.step, self.config.files.save_every):
                self.save()
            if interrupted:
                reason = stop.reason or "another process"
                raise Interrupted(
                    f"stopped by {reason} at step {now.step}, all is saved; "
                    f"go on with: regard train --resume {self.folder.path}",
                    stop.reason,
                )
        return now

    def save(self) -> None:
        """Write a checkpoint, then remove those that are no longer needed."""
        now = self.progress
        now.seconds = time.monotonic() - self._birth
        now.log = self.reporter.position()
        if self.processes.broadcast_from_main(now.best.score is None):
            self.evaluator.write_model(now)
        checkpoint.save(
            self.folder, self.engine.model, optimizer=self.optimizer, progress=now, write=self.processes.is_main_process
        )
        if self.processes.is_main_process:
            checkpoint.prune(self.folder, now, keep=self.config.files.keep_checkpoints)

    def _stepper(self) -> Stepper:
        loss = self.task.loss
        factor = schedule(self.config.schedule, self._total() if self.config.schedule.name == "cosine" else None)
        return Stepper(
            self.recipe,
            self.task,
            engine=self.engine,
            optimizer=self.optimizer,
            lr_factor=factor,
            processes=self.processes,
            loss=CompiledLoss(loss, self.console.print_line) if self.config.hardware.compile else loss,
        )

    def _read_plan(self) -> None:
        """The batches of this epoch; refused if the data is not what the run was trained on so far."""
        now = self.progress
        self.batches = self.task.epoch_batches(now.epoch, self.recipe.seed)
        if not len(self.batches):
            raise DataError("there are no training batches; give more data or a larger batch size")
        plan = checkpoint.batches_checksum(self.batches)
        if now.index and now.plan and now.plan != plan:
            raise DataError(
                f"the batches of this epoch differ from those {self.folder.path} was trained on so far; go on with the "
                "version of regard that began it, or start a new run"
            )
        now.plan = plan

    def _advance(self, outcome: StepResult, examples: Indices) -> bool:
        """Count the step; says whether it was the last of its epoch."""
        now = self.progress
        now.step, now.index = now.step + 1, now.index + 1
        now.skipped = 0 if outcome.is_finite else now.skipped + 1
        if outcome.is_finite:
            now.window.loss += outcome.loss
            now.window.tokens += outcome.tokens
            for name, value in outcome.loss_parts.items():
                now.window.parts[name] = now.window.parts.get(name, 0.0) + value
        else:
            self._not_finite(outcome, examples)
        epoch_ended = now.index == len(self.batches)
        if epoch_ended:
            now.epoch, now.index = now.epoch + 1, 0
            self._read_plan()
        return epoch_ended

    def _not_finite(self, outcome: StepResult, examples: Indices) -> None:
        now = self.progress
        now.window.skipped += 1
        hopeless = now.skipped >= len(self.batches)  # as many as an epoch has, one after the other
        if self.config.optimizer.on_nonfinite == "stop" or hopeless:
            if self.processes.is_main_process:
                write_nonfinite(self.folder, self.task, examples=examples, result=outcome, progress=now)
            raise Diverged(explain_nonfinite(self.folder, now, outcome))

    def _write_row(self, outcome: StepResult) -> None:
        now, window = self.progress, self.progress.window
        self.console.set_progress(self._done())
        self._report_eta()
        if _due(now.step, self.config.files.log_every):
            tokens = max(1, window.tokens)
            row: LogRow = {"step": now.step, "epoch": now.current_epoch}
            row["loss"] = window.loss / tokens if window.tokens else float("nan")
            row |= {name: value / tokens for name, value in window.parts.items()}
            row |= {"lr": outcome.lr, "norm": outcome.grad_norm}
            row |= {"skipped": window.skipped} if window.skipped else {}
            self.reporter.add(row, throughput=self._pace, remaining_s=self._left())
            now.window, self._pace, self._row_shown = LogWindow(), Throughput(), True
        elif not self._row_shown:
            loss = outcome.loss / max(1, outcome.tokens)
            self.console.set_status(
                format_row({"step": now.step, "epoch": now.current_epoch, "loss": loss}, self._left())
            )

    def _report_eta(self) -> None:
        """Say once how long the rest will take, when enough steps were timed; not where minutes are given."""
        steps, seconds = self.progress.step - self._first, self._pace.seconds
        if self._foretold or self.config.minutes is not None or steps < 3 or seconds < 3.0:
            return
        self._foretold = True
        left = self._left()
        if left is not None:
            self.console.print_line(
                f"about {format_duration(left)} to go, by the first {steps} steps; evaluation comes on top"
            )

    def _be_watched(self) -> None:
        """Whoever watches sees the model; not a sharded one, which a process alone cannot run."""
        if self.processes.is_main_process and self.engine.gathered_model is None:
            step, last = self.progress.step, self.progress.ended is not None
            self.step_callback(
                self.recipe, self.task, model=self.engine.model, run=self.folder.path, step=step, last=last
            )

    def _evaluate(self, epoch_ended: bool) -> bool:
        """Evaluate if it is time to, or if this is the end; says whether it did."""
        now, every = self.progress, self.config.evaluation.every
        if not (epoch_ended if every is None else _due(now.step, every)) and now.ended is None:
            return False
        self.reporter.add(self.evaluator.evaluate(now))
        self._row_shown = False
        if now.ended is None:
            now.ended = self._over(time_used=False)
        return True

    def _finish(self) -> None:
        row = self.evaluator.evaluate_averaged(self.progress)
        if row is not None:
            self.reporter.add(row)
        now = self.progress
        if now.skipped and now.skipped == now.step:
            raise Diverged(
                f"the loss of none of the {now.step} batches was a number, so nothing was learned; lower "
                "training.optimizer.lr, or see what is wrong with the data"
            )
        self.reporter.log_only({"step": now.step, "end": now.ended})
        self.console.print_line(f"stopped after step {now.step}: {summary.end_reason(now.ended or '', self.config)}")

    def _over(self, *, time_used: bool) -> str | None:
        """Why training ends here, if it does."""
        now, config, patience = self.progress, self.config, self.config.evaluation.patience
        reasons = {
            "steps": config.steps is not None and now.step >= config.steps,
            "epochs": config.epochs is not None and now.epoch >= config.epochs,
            "minutes": time_used,
            "patience": patience is not None and now.best.since >= patience,
        }
        return next((name for name, true in reasons.items() if true), None)

    def _time_used(self) -> bool:
        """Whether the minutes are over, by the first process's clock alone."""
        minutes = self.config.minutes
        return self.processes.is_main_process and minutes is not None and time.monotonic() - self._birth >= 60 * minutes

    def _total(self) -> int:
        """The last step, as far as steps and epochs say."""
        config = self.config
        by_epochs = config.epochs * len(self.task.epoch_batches(0, self.recipe.seed)) if config.epochs else None
        return min(total for total in (config.steps, by_epochs, 10**12) if total is not None)

    def _done(self) -> float:
        """The share of the run that is behind."""
        now, config = self.progress, self.config
        epochs = now.epoch + now.index / len(self.batches)
        minutes = (time.monotonic() - self._birth) / 60
        shares = ((now.step, config.steps), (epochs, config.epochs), (minutes, config.minutes))
        return min(1.0, max(done / total for done, total in shares if total))

    def _left(self) -> float | None:
        """Seconds to the end, if it goes on like this."""
        done, used = self._done(), time.monotonic() - self._birth
        return used / done * (1 - done) if done else None


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
