"""A run: train one into a folder, resume it, load it. The folder needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.core.errors import CheckpointError, ConfigError
from regard.core.protocols import Loss
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.training import card, checkpoint, sealed, start
from regard.training.console import Console, Silent, open_console
from regard.training.folder import Folder, begin, check_files, locked, read_config, read_recipe, write_recipe
from regard.training.hardware import keep_freed_memory, recompute_blocks
from regard.training.processes import Engine, Processes, join, joined
from regard.training.recipe import Recipe
from regard.training.start import Taken
from regard.training.step import move
from regard.training.stop import listening
from regard.training.trainer import Trainer, Watch, nobody

_FREE_TO_CHANGE = ("training", "decoding")


@dataclass(frozen=True)
class Parts:
    """What a run folder holds, ready to use."""

    folder: Path
    recipe: Recipe
    task: Task
    model: nn.Module


def train(recipe: Recipe, out: Path | str, *, console: Console | None = None, watch: Watch = nobody) -> Path:
    """Train a new run into the folder `out` and return it; `watch` sees the model after every step."""
    folder = Folder(Path(out))
    with ExitStack() as held:
        processes = held.enter_context(joined(recipe.training.hardware.device))
        task = None
        if processes.first:
            if recipe.start is not None:
                start.check(recipe.start)
            folder.make()
            held.enter_context(locked(folder))
            if folder.config.exists():
                raise CheckpointError(
                    f"{folder.path} already holds a run; go on with --resume {folder.path}, or choose another --out"
                )
            task = start.build_task(recipe)
            _begin(recipe, folder, task)
        processes.wait()
        return _fit(recipe, folder, processes=processes, task=task, console=console, watch=watch)


def _begin(recipe: Recipe, folder: Folder, task: Task) -> None:
    """Write all that a run has before its first step: what it starts from, the task's files, the recipe."""
    taken: Taken | None = None
    if recipe.start is not None:
        taken, tensors = start.take(recipe.start, build_model(recipe, task))
        sealed.write_tensors(folder.start, tensors, {})

    def save(draft: Path) -> None:
        task.save(draft)
        if recipe.start is not None and taken is not None:
            start.save(recipe.start, taken, draft=draft)

    begin(folder, recipe, save)


def resume(
    out: Path | str, settings: Sequence[str] = (), *, console: Console | None = None, watch: Watch = nobody
) -> Path:
    """Go on with a run as if it had never stopped; `settings` may change [training] and [decoding]."""
    folder = Folder(Path(out))
    old = read_recipe(folder)
    recipe = _changed(old, settings)
    with ExitStack() as held:
        processes = held.enter_context(joined(recipe.training.hardware.device))
        if processes.first:
            held.enter_context(locked(folder))
            folder.clean()
            if recipe != old:
                write_recipe(folder, recipe, read_config(folder)["files"])
        processes.wait()
        return _fit(recipe, folder, processes=processes, task=None, console=console, watch=watch)


def _changed(old: Recipe, settings: Sequence[str]) -> Recipe:
    for setting in settings:
        section = setting.partition("=")[0].partition(".")[0]
        if section not in _FREE_TO_CHANGE:
            raise ConfigError(f"{setting}: a trained run keeps its {section}; only training.… and decoding.… change")
    return old.changed(settings)


def _fit(
    recipe: Recipe,
    folder: Folder,
    *,
    processes: Processes,
    task: Task | None,
    console: Console | None,
    watch: Watch,
) -> Path:
    """The part that new and resumed runs share, on every process."""
    keep_freed_memory()
    if task is None:
        check_files(folder)
        task = recipe.task.module("tasks").build(recipe.task.config, folder=folder.path)
    speaker = (console or open_console()) if processes.first else Silent()
    try:
        trainer = Trainer(
            recipe,
            task,
            engine=_engine(recipe, task, folder=folder, processes=processes),
            folder=folder,
            processes=processes,
            console=speaker,
            watch=watch,
        )
        saved = folder.checkpoints()
        taken = None if saved else start.read(folder.path)
        for note in [*task.notes(), *(taken.lines() if taken else [])]:
            speaker.say(note)
        trainer.restore(saved[-1] if saved else None)
        with listening() as stop:
            now = trainer.fit(stop)
        if processes.first:
            parts = load_parts(folder.path)
            card.write(folder, recipe, task=parts.task, model=parts.model, now=now)
    finally:
        speaker.close()
    processes.wait()
    return folder.path


def _engine(recipe: Recipe, task: Task, *, folder: Folder, processes: Processes) -> Engine:
    hardware = recipe.training.hardware
    model = build_model(recipe, task)
    taken = start.read(folder.path)
    if taken is not None:
        start.apply(taken, model, weights=None if folder.checkpoints() else folder.start)
    model = model.to(processes.device)
    if hardware.checkpoint_activations:
        recompute_blocks(model)
    return join(model, processes, shard=hardware.shard, example=lambda model: _one_example(recipe, task, model=model))


def _one_example(recipe: Recipe, task: Task, *, model: nn.Module) -> Loss:
    batch = task.batch(task.plan(0, recipe.seed)[0][:1])
    return task.loss(model, move(batch, next(model.parameters()).device))


def build_model(recipe: Recipe, task: Task) -> nn.Module:
    """The model with the first weights that the seed gives."""
    seed_all(recipe.seed)
    model: nn.Module = recipe.model.module("models").build(recipe.model.config, task.sizes)
    return model


def load_parts(path: Path | str, settings: Sequence[str] = (), *, device: str | torch.device = "cpu") -> Parts:
    """A run from its folder with its best weights; `settings` such as `decoding.width=8` are laid over its recipe."""
    folder = Folder(Path(path))
    recipe = _changed(read_recipe(folder), settings)
    check_files(folder)
    task: Task = recipe.task.module("tasks").load(recipe.task.config, folder.path)
    if not folder.model.exists():
        raise CheckpointError(f"{folder.model}: no weights yet; train on with: regard train --resume {folder.path}")
    tensors, _ = sealed.read_tensors(folder.model)
    model = build_model(recipe, task)
    checkpoint.restore_weights(model, tensors, folder.model)
    return Parts(folder.path, recipe, task, model.to(device).eval())
