"""`regard train`: train a task or a recipe with settings into a run folder, or resume a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import completion, help
from regard.cli.help import Section
from regard.cli.settings import TRAIN, SettingsCommand, Trust, settings_of
from regard.core import config as configs
from regard.core.errors import ConfigError, RegardError
from regard.core.registry import registered_names

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

PANEL = TRAIN


class Command(SettingsCommand):
    """Its help lists the settings of the task and the model among the arguments."""

    def sections(self, args: Sequence[str]) -> Iterable[Section]:
        from regard.training import recipe_files

        plain = [arg for arg in args if "=" not in arg and not arg.startswith("-")]
        models = [arg.partition("=")[2] for arg in args if arg.startswith("model=")]
        for arg in plain:
            try:
                recipe = None if arg in registered_names("regard.tasks") else recipe_files.find_recipe(arg)
                task = arg if recipe is None else str(configs.read_toml(recipe).get("task"))
                return help.task_sections(task, models[-1] if models else None)
            except RegardError:
                continue
        return [Section("Settings of a task: regard train TASK --help; tasks: regard list tasks")]


def run(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK|RECIPE|KEY=VALUE",
            help="A task or a recipe (a name of `regard list recipes`, or a .toml file), and settings: model=luong.",
            show_default=False,
            autocompletion=completion.complete_train,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to create.", show_default="runs/<task>-<model>")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Resume this run; the result is as if it had never stopped.", autocompletion=completion.runs),
    ] = None,
    *,
    seeds: Annotated[
        int | None,
        typer.Option(min=2, help="Train with this many seeds, evaluate each run, and print mean and deviation."),
    ] = None,
    new_log: Annotated[
        bool, typer.Option("--new-log", help="With --resume: start a new log if the old one was lost or changed.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the run folder, at the end.")] = False,
    trust: Trust = False,
) -> None:
    """Train a model into a run folder, or resume a run."""
    arguments, recipe = split_words(words or [])
    settings = settings_of(context)
    if resume is not None:
        if recipe is not None or out is not None or seeds is not None:
            raise ConfigError(
                f"--resume {resume} uses the recipe and folder of the run; leave out RECIPE, --out and --seeds"
            )
        resume_run(resume, [*arguments, *settings], trust=trust, new_log=new_log, quiet=quiet)
    else:
        task, changes = arguments[0] if arguments else _task(recipe), [*arguments[1:], *settings]
        if seeds is None:
            train_new(task, recipe, changes, out=out, quiet=quiet)
        else:
            train_seeds(task, recipe, changes, out=out, seeds=seeds, quiet=quiet)


def split_words(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the words without the recipe, and the file of the recipe: a .toml file, or the name of one."""
    from regard.training import recipe_files

    arguments: list[str] = []
    recipes: list[Path] = []
    for word in words:
        is_task = "." in word.removesuffix(".toml") or word in registered_names("regard.tasks")
        is_path = word.endswith((".toml", ".json")) or "/" in word
        recipe = None if is_task and not is_path else recipe_files.find_recipe(word)
        if recipe is not None:
            recipes.append(recipe)
        elif is_task and not is_path:
            arguments.append(word)
        else:
            raise recipe_files.unknown_word(word)
    if len(recipes) > 1:
        raise typer.BadParameter(f"two recipes, {recipes[0]} and {recipes[1]}; give one")
    return arguments, recipes[0] if recipes else None


def _task(recipe: Path | None) -> str:
    if recipe is None:
        raise ConfigError("name a task (see: regard list tasks), a recipe, or --resume RUN")
    task = configs.read_toml(recipe).get("task")
    if not isinstance(task, str):
        raise ConfigError(f"{recipe}: no task is named; add: task = …")
    return task


def train_new(task: str, recipe: Path | None, settings: list[str], *, out: Path | None, quiet: bool = False) -> None:
    """Train a new run and print its folder and metrics."""
    from regard.inspection import training_snapshots
    from regard.training import recipe as recipes
    from regard.training import train as runs
    from regard.training.console import SilentConsole

    parsed = recipes.read(task, recipe, settings=settings)
    folder = out if out is not None else free_folder(parsed)
    _print_summary(
        runs.train(
            parsed, folder, step_callback=training_snapshots.record_snapshot, console=SilentConsole() if quiet else None
        )
    )


def train_seeds(
    task: str, recipe: Path | None, settings: list[str], *, out: Path | None, seeds: int, quiet: bool = False
) -> None:
    """Train one run for each seed into OUT/seed-N, evaluate them, and print mean and deviation of every metric.

    A run that exists is resumed, so that an interrupted sweep continues with the same command. A command with other
    settings is refused.
    """
    from regard.api.run import load
    from regard.cli import sweep
    from regard.cli.commands import evaluate
    from regard.training import recipe as recipes

    parsed = recipes.read(task, recipe, settings=settings)
    folder = out if out is not None else free_folder(parsed)
    sweep.check_settings(folder, parsed)
    reports = []
    for seed in range(parsed.seed, parsed.seed + seeds):
        run = folder / f"seed-{seed}"
        if (run / "config.json").exists():
            resume_run(run, [], quiet=quiet)
        else:
            train_new(task, recipe, [*settings, f"seed={seed}"], out=run, quiet=quiet)
        loaded = load(run)
        reports.append(evaluate.evaluate(loaded, evaluate.select_split(loaded, None)))
    print(sweep.write_summary(folder, reports))


def resume_run(
    folder: Path, settings: list[str], *, trust: bool = False, new_log: bool = False, quiet: bool = False
) -> None:
    """Resume a run and print its folder and metrics."""
    from regard.inspection import training_snapshots
    from regard.training import train as runs
    from regard.training.console import SilentConsole

    console = SilentConsole() if quiet else None
    _print_summary(
        runs.resume(
            folder,
            settings,
            step_callback=training_snapshots.record_snapshot,
            trust=trust,
            new_log=new_log,
            console=console,
        )
    )


def free_folder(recipe: Recipe) -> Path:
    """Return runs/<task>-<model>, with a number if that folder is in use."""
    base = Path("runs") / f"{recipe.task.name}-{recipe.model.name}"
    numbered = (base.with_name(f"{base.name}-{index}") for index in range(2, 10_000))
    return next(path for path in (base, *numbered) if not path.exists() or (path.is_dir() and not any(path.iterdir())))


def _print_summary(folder: Path) -> None:
    """Print the run folder and the validation metrics of its weights, in the first process only."""
    from regard.training.run_folder import RunFolder, read_saved_metrics

    if os.environ.get("RANK", "0") == "0":
        step, metrics = read_saved_metrics(RunFolder(folder))
        scores = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items()) or "not evaluated"
        print(f"{folder}: the weights of step {step}, validation {scores}")
