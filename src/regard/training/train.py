"""A run: train one into a folder, resume it, load it. The folder needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn

from regard.core import trust as trusts
from regard.core.checksums import describe_changes
from regard.core.errors import CheckpointError, ConfigError, DataError, RegardError
from regard.core.extras import require
from regard.core.protocols import Loss
from regard.core.seed import preserve_rng_state, seed_all
from regard.core.task import Task
from regard.training import checkpoint, data_paths, model_card, optimizer, pretrained, summary, tensor_files
from regard.training.checkpoint import Tensors
from regard.training.console import Console, SilentConsole, open_console
from regard.training.device import enable_activation_checkpointing, keep_freed_memory, resolve_dtype
from regard.training.distributed import Processes, TrainingEngine, distributed_context, wrap_model
from regard.training.evaluator import selection_metric
from regard.training.pretrained import PretrainedReport
from regard.training.recipe import Recipe
from regard.training.run_folder import (
    RunFolder,
    RunIdentity,
    check_available,
    check_files,
    create_run_folder,
    lock_folder,
    new_identity,
    read_identity,
    read_recipe,
    write_config,
)
from regard.training.shape_check import check_shapes
from regard.training.signals import handle_signals
from regard.training.step import move_to_device
from regard.training.trainer import StepCallback, Trainer, no_callback

_FREE_TO_CHANGE = ("training", "decoding")


@dataclass(frozen=True)
class LoadedRun:
    """What a run folder holds, ready to use."""

    folder: Path
    recipe: Recipe
    task: Task
    model: nn.Module
    trusted: bool = True  # False: a stranger's run, for which nothing is imported or fetched


def train(
    recipe: Recipe, out: Path | str, *, console: Console | None = None, step_callback: StepCallback = no_callback
) -> Path:
    """Train a new run into the folder `out` and return it; `watch` sees the model after every step."""
    folder = RunFolder(Path(out))
    recipe = data_paths.with_absolute_paths(recipe)
    with ExitStack() as held:
        held.enter_context(preserve_rng_state())
        processes = held.enter_context(distributed_context(recipe.training.hardware.device))
        task = None
        if processes.is_main_process:
            check_available(folder.path)
            if recipe.pretrained is not None and recipe.pretrained.run:
                pretrained.check_source_run(recipe.pretrained)
            task = pretrained.build_task(recipe)
            _begin(recipe, folder, task=task, processes=processes)
            trusts.mark_trusted(folder.path)
            held.enter_context(lock_folder(folder))
        processes.barrier()
        return _fit(recipe, folder, processes=processes, task=task, console=console, watch=step_callback)


def _begin(recipe: Recipe, folder: RunFolder, *, task: Task, processes: Processes) -> None:
    """The folder with all that a run has before its first step: what it starts from, the task's files, the recipe.

    Whatever can be wrong with a recipe is found before there is a folder.
    """
    taken, tensors = _dry_run(recipe, task, device=processes.device)
    data = task.fingerprint()

    def fill(draft: RunFolder) -> None:
        task.save(draft.path)
        if recipe.pretrained is not None and taken is not None:
            pretrained.save_report(recipe.pretrained, taken, draft=draft.path)
        identity = new_identity(recipe, pretrained.file_checksums(draft), data)
        if tensors:
            tensor_files.write_tensors(draft.pretrained_weights, tensors, {"run": identity.run_id})
        write_config(draft, recipe, identity)

    create_run_folder(folder.path, fill)


def _dry_run(recipe: Recipe, task: Task, *, device: torch.device) -> tuple[PretrainedReport | None, Tensors]:
    """Build everything once and compute the loss of one example; what is taken from another run."""
    resolve_dtype(recipe.training.hardware.precision, device)
    optimizer.check_weight_decay(recipe.training.optimizer)
    selection_metric(recipe, task)
    if recipe.training.files.tensorboard:
        require("tensorboard", extra="tensorboard")
    model = build_model(recipe, task)
    taken, tensors = (
        (None, {}) if recipe.pretrained is None else pretrained.collect_pretrained(recipe.pretrained, model, task)
    )
    if not len(task.epoch_batches(0, recipe.seed)):
        raise DataError("there are no training batches; give more data or a larger batch size")
    _one_example(recipe, task, model=model).total.backward()
    return taken, tensors


def resume(
    out: Path | str,
    settings: Sequence[str] = (),
    *,
    console: Console | None = None,
    step_callback: StepCallback = no_callback,
    trust: bool = False,
    new_log: bool = False,
) -> Path:
    """Go on with a run as if it had never stopped; `settings` may change [training] and [decoding].

    `new_log` sets a log aside that is lost or was changed, and begins a new one. `trust`: see `load_parts`.
    """
    folder = RunFolder(Path(out))
    trusted = trust or trusts.is_trusted(folder.path)
    with trusts.trust_scope(folder.path, trusted=trusted):
        old = read_recipe(folder)
    recipe = _changed(old, settings)
    with ExitStack() as held:
        held.enter_context(trusts.trust_scope(folder.path, trusted=trusted))
        held.enter_context(preserve_rng_state())
        processes = held.enter_context(distributed_context(recipe.training.hardware.device))
        if processes.is_main_process:
            folder.reject_symlinks()
            held.enter_context(lock_folder(folder))
            folder.remove_partial_files()
            if recipe != old:
                write_config(folder, recipe, read_identity(folder))
            if trusted:
                trusts.mark_trusted(folder.path)
        processes.barrier()
        return _fit(
            recipe, folder, processes=processes, task=None, console=console, watch=step_callback, new_log=new_log
        )


def _changed(old: Recipe, settings: Sequence[str]) -> Recipe:
    data = data_paths.changeable_settings(old)
    for setting in settings:
        key = setting.partition("=")[0]
        section = key.partition(".")[0]
        if section not in _FREE_TO_CHANGE and key not in data:
            where = "".join(f", {name}=…" for name in data)
            raise ConfigError(
                f"{setting}: a trained run keeps its {section}; only training.…, decoding.…{where} change"
            )
    return data_paths.with_absolute_paths(old.with_settings(settings)) if settings else old


def _fit(
    recipe: Recipe,
    folder: RunFolder,
    *,
    processes: Processes,
    task: Task | None,
    console: Console | None,
    watch: StepCallback,
    new_log: bool = False,
) -> Path:
    """The part that new and resumed runs share, on every process."""
    keep_freed_memory()
    speaker = (console or open_console()) if processes.is_main_process else SilentConsole()
    try:
        identity = read_identity(folder)
        if task is None:
            check_files(folder)
            data_paths.check_paths_exist(recipe, folder.path)
            task = recipe.task.module("tasks").build(recipe.task.config, folder=folder.path)
            if processes.is_main_process:
                _check_data(folder, identity, task=task, console=speaker)
        trainer = Trainer(
            recipe,
            task,
            engine=_engine(recipe, task, folder=folder, identity=identity, processes=processes),
            folder=folder,
            processes=processes,
            console=speaker,
            step_callback=watch,
        )
        saved = folder.checkpoints()
        trainer.restore(saved[-1] if saved else None, identity=identity, new_log=new_log)
        taken = None if saved else pretrained.read_report(folder.path)
        for line in summary.describe_run(
            recipe, task, model=trainer.engine.model, batches=trainer.batches, processes=processes
        ):
            speaker.print_line(line)
        for note in [*task.data_warnings(), *(taken.describe() if taken else [])]:
            speaker.print_line(note)
        with handle_signals() as stop:
            now = trainer.fit(stop)
        if processes.is_main_process:
            parts = load_run(folder.path, trust=True)
            model_card.write(folder, recipe, task=parts.task, model=parts.model, progress=now)
    finally:
        speaker.close()
    processes.barrier()
    return folder.path


def _check_data(folder: RunFolder, identity: RunIdentity, *, task: Task, console: Console) -> None:
    """The data is what the run was begun with, or what has changed is said."""
    if identity.run_id is None or identity.fingerprint is None:
        console.print_line(
            f"{folder.path} was begun by an earlier regard: that its model, checkpoints and log belong together, and "
            "that the data is the same, cannot be checked"
        )
        return
    changed = describe_changes(identity.fingerprint, task.fingerprint())
    if changed:
        raise DataError(
            f"the data is not what {folder.path} was begun with: {', '.join(changed)}; restore the data, or start a "
            "new run"
        )


def _engine(
    recipe: Recipe, task: Task, *, folder: RunFolder, identity: RunIdentity, processes: Processes
) -> TrainingEngine:
    hardware = recipe.training.hardware
    model = build_model(recipe, task)
    taken = pretrained.read_report(folder.path)
    if taken is not None:
        pretrained.apply_pretrained(
            taken, model, weights=None if folder.checkpoints() else folder.pretrained_weights, identity=identity
        )
    model = model.to(processes.device)
    if hardware.checkpoint_activations:
        enable_activation_checkpointing(model)
    return wrap_model(
        model, processes, shard=hardware.shard, example_loss=lambda model: _one_example(recipe, task, model=model)
    )


def _one_example(recipe: Recipe, task: Task, *, model: nn.Module) -> Loss:
    batch = task.collate(task.epoch_batches(0, recipe.seed)[0][:1])
    return task.loss(model, move_to_device(batch, next(model.parameters()).device))


def build_model(recipe: Recipe, task: Task) -> nn.Module:
    """The model with the first weights that the seed gives."""
    seed_all(recipe.seed)
    model: nn.Module = recipe.model.module("models").build(recipe.model.config, task.spec)
    return model


def load_run(
    path: Path | str, settings: Sequence[str] = (), *, device: str | torch.device = "cpu", trust: bool = False
) -> LoadedRun:
    """A run from its folder with its best weights; `settings` such as `decoding.beam_width=8` are laid over its recipe.

    A run that was trained here may import what it was trained with. For any other nothing from outside regard is
    imported, and nothing is fetched over a network, unless `trust` says so.
    """
    folder = RunFolder(Path(path))
    trusted = trust or trusts.is_trusted(folder.path)
    with preserve_rng_state(), trusts.trust_scope(folder.path, trusted=trusted), _in_one_line(folder, trusted=trusted):
        recipe = read_recipe(folder)
        identity = read_identity(folder)
        check_files(folder)
        recipe = _changed(recipe, settings)
        task: Task = recipe.task.module("tasks").load(recipe.task.config, folder.path)
        if not folder.model.exists():
            raise CheckpointError(f"{folder.model}: no weights yet; train on with: regard train --resume {folder.path}")
        build = partial(build_model, recipe, task)
        check_shapes(build, tensor_files.read_shapes(folder.model), config=folder.config, weights=folder.model)
        tensors, facts = tensor_files.read_tensors(folder.model)
        identity.check(folder.model, facts)
        model = build()
        checkpoint.restore_weights(model, tensors, folder.model)
        model = model.to(device).eval()
    return LoadedRun(folder.path, recipe, task, model, trusted)


@contextmanager
def _in_one_line(folder: RunFolder, *, trusted: bool) -> Iterator[None]:
    """What goes wrong while a stranger's run is built is one line; in a run of the user's own it is a fault of ours."""
    try:
        yield
    except RegardError:
        raise
    except Exception as wrong:
        if trusted:
            raise
        reason = " ".join(f"{type(wrong).__name__}: {wrong}".split())[:200]
        raise CheckpointError(f"{folder.config}: no run can be built from it ({reason})") from wrong
