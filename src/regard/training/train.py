"""Train a run into a new folder, or resume one. The folder is self-contained, except for the data."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import nn

from regard.core import trust as trusts
from regard.core.checksums import describe_changes
from regard.core.errors import ConfigError, DataError, RegardError
from regard.core.pretrained_runs import check_writable, locate_run
from regard.core.protocols import Loss
from regard.core.seed import preserve_rng_state
from regard.core.task import Task
from regard.training import (
    data_paths,
    model_card,
    optimizer,
    plan,
    plan_warnings,
    pretrained,
    summary,
    tensor_files,
    third_party,
)
from regard.training.checkpoint import Tensors
from regard.training.console import Console, SilentConsole, open_console
from regard.training.device import enable_activation_checkpointing, keep_freed_memory
from regard.training.distributed import Processes, TrainingEngine, distributed_context, wrap_model
from regard.training.evaluator import selection_metric
from regard.training.initialization import fit_to_data
from regard.training.load_run import build_model, change_recipe, load_run
from regard.training.precision import resolve_dtype
from regard.training.preflight import check_decoding, check_imports
from regard.training.pretrained import PretrainedReport
from regard.training.recipe import Recipe, Settings
from regard.training.run_folder import (
    RunFolder,
    RunIdentity,
    check_available,
    check_files,
    create_run_folder,
    file_checksums,
    lock_folder,
    new_identity,
    read_config,
    read_identity,
    read_origin,
    read_recipe,
    write_config,
)
from regard.training.step import move_to_device
from regard.training.stop_signals import handle_signals
from regard.training.trainer import StepCallback, Trainer, no_callback


def train(
    recipe: Recipe, out: Path | str, *, console: Console | None = None, step_callback: StepCallback = no_callback
) -> Path:
    """Train a new run into the folder `out` and return its path; `step_callback` is called after every step."""
    folder = RunFolder(Path(out))
    recipe = data_paths.with_absolute_paths(recipe)
    with ExitStack() as stack:
        stack.enter_context(preserve_rng_state())
        processes = stack.enter_context(distributed_context(recipe.training.hardware.device))
        task, notes = None, tuple[str, ...]()
        if processes.is_main_process:
            check_available(folder.path)
            if recipe.pretrained is not None and recipe.pretrained.run:
                pretrained.check_source_run(recipe.pretrained)
            (recipe, notes), task = plan.prepare(recipe, build_task, processes.device)
            _create_folder(recipe, folder, task=task, processes=processes)
            trusts.mark_trusted(folder.path)
            stack.enter_context(lock_folder(folder))
        processes.barrier()
        if not processes.is_main_process and recipe.plan is not None:
            recipe = read_recipe(folder)  # with the plan of the main process
        return _fit(
            recipe, folder, processes=processes, task=task, console=console, step_callback=step_callback, notes=notes
        )


def _create_folder(recipe: Recipe, folder: RunFolder, *, task: Task, processes: Processes) -> None:
    """Create the folder with its initial files: the pretrained weights, the task's files and the recipe.

    Errors in the recipe are raised before the folder exists.
    """
    report, tensors = _dry_run(recipe, task, device=processes.device)
    fingerprint = task.fingerprint()

    def write_files(draft: RunFolder) -> None:
        task.save(draft.path)
        if recipe.pretrained is not None and report is not None:
            pretrained.save_report(recipe.pretrained, report, draft=draft.path)
        identity = new_identity(recipe, file_checksums(draft), fingerprint)
        if tensors:
            tensor_files.write_tensors(draft.pretrained_weights, tensors, {"run": identity.run_id})
        write_config(draft, recipe, identity)

    create_run_folder(folder.path, write_files)


def _dry_run(recipe: Recipe, task: Task, *, device: torch.device) -> tuple[PretrainedReport | None, Tensors]:
    """Build everything and compute the loss of one example; return the report and tensors of the pretrained weights."""
    optimizer.check_weight_decay(recipe.training.optimizer)
    selection_metric(recipe, task)
    check_imports(recipe)
    model = build_model(recipe, task)
    resolve_dtype(recipe.training.hardware.precision, device, model)
    report: PretrainedReport | None = None
    tensors: Tensors = {}
    if recipe.pretrained is not None:
        report, tensors = pretrained.collect_pretrained(recipe.pretrained, model, task)
    third_party.check_parts(model, recipe.decoding)
    if not len(task.epoch_batches(0, recipe.seed)):
        raise DataError("the training data has no batches; provide more data or a larger batch size")
    _example_loss(recipe, task, model=model).total.backward()
    check_decoding(recipe, task, model)
    return report, tensors


def resume(
    out: Path | str,
    settings: Settings = (),
    *,
    console: Console | None = None,
    step_callback: StepCallback = no_callback,
    trust: bool = False,
    new_log: bool = False,
) -> Path:
    """Continue a run with exactly the results of an uninterrupted run; `settings` may change [training] and [decoding].

    `new_log` moves a damaged log away and starts a new one. `trust`: see `load_run`.
    """
    folder = RunFolder(locate_run(out))
    check_writable(folder.path, "train its recipe into a folder of yours: regard info RUN names it")
    if (origin := read_origin(folder)) is not None:
        raise ConfigError(
            f"{folder.path}: imported from {origin['source']}, with no training to resume; fine-tune it in a new run: "
            f"pretrained.run={folder.path} pretrained.vocabulary=true"
        )
    trusted = trust or trusts.is_trusted(folder.path)
    with trusts.trust_scope(folder.path, trusted=trusted):
        old = read_recipe(folder)
    recipe = change_recipe(old, settings)
    with ExitStack() as stack:
        stack.enter_context(trusts.trust_scope(folder.path, trusted=trusted))
        stack.enter_context(preserve_rng_state())
        processes = stack.enter_context(distributed_context(recipe.training.hardware.device))
        if processes.is_main_process:
            folder.reject_symlinks()
            stack.enter_context(lock_folder(folder))
            folder.remove_partial_files()
            if recipe != old:
                write_config(folder, recipe, read_identity(folder))
            if trusted:
                trusts.mark_trusted(folder.path)
        processes.barrier()
        return _fit(
            recipe,
            folder,
            processes=processes,
            task=None,
            console=console,
            step_callback=step_callback,
            new_log=new_log,
        )


def build_task(recipe: Recipe) -> Task:
    """Build the task of a new run, with the vocabulary of its source run if pretrained.vocabulary is set."""
    build, config = recipe.task.module("tasks").build, recipe.task.config
    if recipe.pretrained is None or not recipe.pretrained.vocabulary:
        task: Task = build(config)
        return task
    if not recipe.pretrained.run and Path(recipe.pretrained.word_vectors).is_file():
        raise ConfigError(
            "pretrained.vocabulary=true copies the vocabulary of a run; set pretrained.run=…, or set "
            "pretrained.word_vectors=… to a run"
        )
    source = pretrained.check_source_run(recipe.pretrained)
    source_task = str(read_config(source).get("task"))
    try:
        task = build(config, folder=source.path)
    except (RegardError, OSError, LookupError, ValueError) as error:
        if source_task == recipe.task.name:
            raise
        raise ConfigError(
            f"pretrained.vocabulary=true: the task {recipe.task.name} cannot be built with the files of {source.path}, "
            f"a run of the task {source_task} ({error}); set pretrained.vocabulary=false"
        ) from None
    return task


def _fit(
    recipe: Recipe,
    folder: RunFolder,
    *,
    processes: Processes,
    task: Task | None,
    console: Console | None,
    step_callback: StepCallback,
    new_log: bool = False,
    notes: Sequence[str] = (),
) -> Path:
    """Train a new or a resumed run, on every process; `notes` are printed before its description."""
    keep_freed_memory()
    output = (console or open_console()) if processes.is_main_process else SilentConsole()
    try:
        identity = read_identity(folder)
        if task is None:
            check_files(folder)
            data_paths.check_paths_exist(recipe, folder.path)
            task = recipe.task.module("tasks").build(recipe.task.config, folder=folder.path)
            if processes.is_main_process:
                _check_data(folder, identity, task=task, console=output)
        saved = folder.checkpoints()
        model = build_model(recipe, task)
        initial_s = 0.0 if saved else fit_to_data(task, model)
        trainer = Trainer(
            recipe,
            task,
            engine=_engine(recipe, task, model=model, folder=folder, identity=identity, processes=processes),
            folder=folder,
            processes=processes,
            console=output,
            step_callback=step_callback,
        )
        trainer.restore(saved[-1] if saved else None, identity=identity, initial_s=initial_s, new_log=new_log)
        report = None if saved else pretrained.read_report(folder.path)
        description = summary.describe_run(
            recipe, task, model=trainer.engine.model, batches=trainer.batches, processes=processes, dtype=trainer.dtype
        )
        for line in [*notes, *description]:
            output.print_line(line)
        warnings = [] if saved else plan_warnings.at_start(recipe, task, trainer.batches, is_planned=bool(notes))
        for note in [*task.data_warnings(), *(report.describe() if report else []), *warnings]:
            output.print_line(note)
        with handle_signals() as stop:
            progress = trainer.fit(stop)
        if processes.is_main_process:
            run = load_run(folder.path, trust=True)
            model_card.write(folder, recipe, task=run.task, model=run.model, progress=progress)
    finally:
        output.close()
    processes.barrier()
    return folder.path


def _check_data(folder: RunFolder, identity: RunIdentity, *, task: Task, console: Console) -> None:
    """Raise a DataError if the data has changed since the run was started."""
    if identity.run_id is None or identity.fingerprint is None:
        console.print_line(
            f"{folder.path} was started by an earlier version of regard; cannot check that its files belong "
            "together and that its data is unchanged"
        )
        return
    changed = describe_changes(identity.fingerprint, task.fingerprint())
    if changed:
        raise DataError(
            f"the data has changed since {folder.path} was started: {', '.join(changed)}; restore the data, or start a "
            "new run"
        )


def _engine(
    recipe: Recipe,
    task: Task,
    *,
    model: nn.Module,
    folder: RunFolder,
    identity: RunIdentity,
    processes: Processes,
) -> TrainingEngine:
    hardware = recipe.training.hardware
    report = pretrained.read_report(folder.path)
    if report is not None:
        pretrained.apply_pretrained(
            report, model, weights=None if folder.checkpoints() else folder.pretrained_weights, identity=identity
        )
    model = model.to(processes.device)
    if hardware.checkpoint_activations:
        enable_activation_checkpointing(model)
    return wrap_model(
        model, processes, shard=hardware.shard, example_loss=lambda model: _example_loss(recipe, task, model=model)
    )


def _example_loss(recipe: Recipe, task: Task, *, model: nn.Module) -> Loss:
    batch = task.collate(task.epoch_batches(0, recipe.seed)[0][:1])
    return task.loss(model, move_to_device(batch, next(model.parameters()).device))
