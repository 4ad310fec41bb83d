"""A run: train one into a folder, resume it, load it. The folder needs nothing else."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.config import Table
from regard.core.errors import CheckpointError, ConfigError
from regard.core.protocols import Loss
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.training import card, checkpoint, files
from regard.training import recipe as recipes
from regard.training.allocator import prepare_process
from regard.training.console import Console, Silent, open_console
from regard.training.distributed import Engine, Processes, join, joined
from regard.training.folder import Folder, locked
from regard.training.recipe import Recipe
from regard.training.recompute import recompute_blocks
from regard.training.step import move
from regard.training.stop import listening
from regard.training.trainer import Trainer
from regard.training.watch import Watch, nobody

_FREE_TO_CHANGE = ("training", "decoding")


@dataclass(frozen=True)
class Run:
    """A trained model with all that is needed to use it."""

    folder: Path
    recipe: Recipe
    task: Any  # a core.protocols.Task, and what else the task can do
    model: nn.Module

    def evaluate(self, split: str = "test") -> dict[str, float]:
        """Free-running scores on a split."""
        with torch.no_grad():
            scores: dict[str, float] = self.task.evaluate(self.model, split, self.recipe.decoder())
        return scores


def train(recipe: Recipe, out: Path | str, *, console: Console | None = None, watch: Watch = nobody) -> Run:
    """Train a new run into the folder `out` and load it; `watch` sees the model after every step."""
    folder = Folder(Path(out))
    with ExitStack() as held:
        processes = held.enter_context(joined(recipe.training.hardware.device))
        task = None
        if processes.first:
            folder.make()
            held.enter_context(locked(folder))
            if folder.config.exists():
                raise CheckpointError(
                    f"{folder.path} already holds a run; go on with --resume {folder.path}, or choose another --out"
                )
            task = recipe.task.module("tasks").build(recipe.task.config)
            begin(folder, recipe, task)
        processes.wait()
        return _fit(recipe, folder, processes=processes, task=task, console=console, watch=watch)


def resume(
    out: Path | str, settings: list[str] | None = None, *, console: Console | None = None, watch: Watch = nobody
) -> Run:
    """Go on with a run as if it had never stopped; `settings` may change [training] and [decoding]."""
    folder = Folder(Path(out))
    old = read_recipe(folder)
    recipe = _changed(old, settings or [])
    with ExitStack() as held:
        processes = held.enter_context(joined(recipe.training.hardware.device))
        if processes.first:
            held.enter_context(locked(folder))
            folder.clean()
            if recipe != old:
                write_recipe(folder, recipe, read_config(folder)["files"])
        processes.wait()
        return _fit(recipe, folder, processes=processes, task=None, console=console, watch=watch)


def _changed(old: Recipe, settings: list[str]) -> Recipe:
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
) -> Run:
    """The part that new and resumed runs share, on every process."""
    prepare_process()
    if task is None:
        check_files(folder)
        task = recipe.task.module("tasks").build(recipe.task.config, folder=folder.path)
    speaker = (console or open_console()) if processes.first else Silent()
    try:
        trainer = Trainer(
            recipe,
            task,
            engine=_engine(recipe, task, processes=processes),
            folder=folder,
            processes=processes,
            console=speaker,
            watch=watch,
        )
        for note in getattr(task, "notes", list)():
            speaker.say(note)
        saved = folder.checkpoints()
        trainer.restore(saved[-1] if saved else None)
        with listening() as stop:
            now = trainer.fit(stop)
        if processes.first:
            card.write(folder, recipe, model=trainer.engine.model, now=now)
    finally:
        speaker.close()
    processes.wait()
    return load(folder.path)


def _engine(recipe: Recipe, task: Task, *, processes: Processes) -> Engine:
    hardware = recipe.training.hardware
    model = build_model(recipe, task).to(processes.device)
    if hardware.checkpoint_activations:
        recompute_blocks(model)
    return join(model, processes, shard=hardware.shard, work=lambda model: _one_example(recipe, task, model=model))


def _one_example(recipe: Recipe, task: Task, *, model: nn.Module) -> Loss:
    batch = task.batch(task.plan(0, recipe.seed)[0][:1])
    return task.loss(model, move(batch, next(model.parameters()).device))


def build_model(recipe: Recipe, task: Task) -> nn.Module:
    """The model with the first weights that the seed gives."""
    seed_all(recipe.seed)
    model: nn.Module = recipe.model.module("models").build(recipe.model.config, task.sizes)
    return model


def load(path: Path | str, settings: list[str] | None = None, *, device: str | torch.device = "cpu") -> Run:
    """A run from its folder: the best weights, ready to use; `settings` such as `decoding.width=8` are laid over it."""
    folder = Folder(Path(path))
    recipe = _changed(read_recipe(folder), settings or [])
    check_files(folder)
    task = recipe.task.module("tasks").load(recipe.task.config, folder.path)
    if not folder.model.exists():
        raise CheckpointError(f"{folder.model}: no weights yet; train on with: regard train --resume {folder.path}")
    tensors, _ = files.read_tensors(folder.model)
    model = build_model(recipe, task)
    checkpoint.restore_weights(model, tensors, folder.model)
    return Run(folder.path, recipe, task, model.to(device).eval())


def begin(folder: Folder, recipe: Recipe, task: Task) -> None:
    """Write the task's files and, last of all, config.json: with it the folder is a run."""
    folder.clean()
    digests: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=folder.state, prefix=".task") as made:
        task.save(Path(made))
        for source in sorted(path for path in Path(made).rglob("*") if path.is_file()):
            name = source.relative_to(made).as_posix()
            digests[name] = files.digest(source)
            (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
            with files.replacing(folder.path / name) as part:
                os.replace(source, part)
    write_recipe(folder, recipe, digests)


def write_recipe(folder: Folder, recipe: Recipe, digests: dict[str, str]) -> None:
    """config.json: the version, the whole recipe, and the checksums of the task's files."""
    files.write_json(folder.config, {"version": recipes.VERSION, **recipe.to_dict(), "files": digests})


def read_config(folder: Folder) -> Table:
    """The table in config.json, brought to this version."""
    if not folder.path.is_dir():
        raise CheckpointError(f"{folder.path}: no such run folder")
    return recipes.migrate(files.read_json(folder.config), folder.config)


def read_recipe(folder: Folder) -> Recipe:
    """The recipe of a run."""
    table = read_config(folder)
    try:
        return recipes.from_dict({key: value for key, value in table.items() if key != "files"})
    except ConfigError as wrong:
        raise CheckpointError(f"{folder.config}: {wrong}") from None


def check_files(folder: Folder) -> None:
    """The task's files are as they were written, or the one that is not is named."""
    for name, expected in read_config(folder).get("files", {}).items():
        path = folder.path / name
        if not path.is_file():
            raise CheckpointError(f"{path}: missing; restore it from a copy of the run")
        if files.digest(path) != expected:
            raise CheckpointError(f"{path}: its checksum does not match config.json; restore it from a copy of the run")
