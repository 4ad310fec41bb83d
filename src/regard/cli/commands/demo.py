"""`regard demo`: try the pretrained run of a task, or train one: predict, draw attention, print next commands."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import predict_command
from regard.cli.output_files import check_targets
from regard.cli.settings import START, SettingsCommand, settings_of
from regard.core.pretrained_runs import PretrainedCard, pretrained_folders
from regard.core.registry import find
from regard.tasks import DEFAULT_TASK

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from regard.api.run import Run

PANEL = START
Command = SettingsCommand
MAX_COLUMN_LABEL = 16  # characters
MAX_TIMES = 12  # columns of a map over time
PAGE_MARK = b"regard-theme"  # in every page of the explorer


def run(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="The task; see: regard list tasks.")] = DEFAULT_TASK,
    out: Annotated[
        Path | None, typer.Option(help="With --train, the folder of the run.", show_default="a temporary folder")
    ] = None,
    page: Annotated[Path, typer.Option(help="File of the explorer page.")] = Path("regard-demo.html"),
    *,
    train: Annotated[bool, typer.Option("--train", help="Train on the built-in data, about 90 seconds.")] = False,
) -> None:
    """Try a task immediately with its pretrained run, without a download; with --train, train a small model first."""
    from regard.training.migrations import RENAMED_TASKS, check_renamed_value

    check_renamed_value(task, "task", RENAMED_TASKS)
    find("regard.tasks", task)
    pretrained = pretrained_folders().get(task)
    is_trained_here = train or out is not None or bool(settings_of(context)) or pretrained is None
    if pretrained is not None and not is_trained_here:
        _try_pretrained(pretrained, page)
    else:
        _train(context, task, out)


def _try_pretrained(folder: Path, page: Path) -> None:
    """Predict with a shipped run, draw an attention map and write the explorer page."""
    from rich.console import Console

    from regard.api.run import load

    card, console = PretrainedCard.read(folder), Console(highlight=False)
    console.print(
        f"pretrained:{folder.name}: {card.model}, trained for {card.minutes:.3g} minutes on {card.data}. "
        f"On held-out data: {card.metric} {card.score:.4g}.\n"
        f"Train it again: regard demo {card.task} --train\n",
        markup=False,
    )
    run = load(folder)
    _print_predictions(run, console, name=f"pretrained:{folder.name}")
    raw_input = next((text for text in run.task.examples if text), None)
    if raw_input is not None:
        _check_page(page)
        run.look(raw_input).save(page)
        console.print(f"\nThe attention maps of the first input are in {page}; open it in a browser.", markup=False)


def _check_page(path: Path) -> None:
    """Raise an error for an existing file that is not a page of the explorer."""
    is_page = path.is_file() and PAGE_MARK in path.read_bytes()
    check_targets([path], force=is_page)


def _train(context: typer.Context, task: str, out: Path | None) -> None:
    """Train the demo settings of a task, evaluate the run and try it."""
    settings = [*getattr(find("regard.tasks", task), "DEMO", []), *settings_of(context)]
    from rich.console import Console

    from regard.api.run import load
    from regard.training import recipe as recipes
    from regard.training import train as runs

    recipe = recipes.read(task, settings=settings)
    folder = out if out is not None else Path(tempfile.mkdtemp(prefix="regard-demo-")) / "run"
    console = Console(highlight=False)
    console.print(f"Training: {recipe.model.name} on the built-in data of {task} (about 90 seconds) …")
    print_results(load(runs.train(recipe, folder)), console)


def print_results(trained: Run, console: Console) -> None:
    """Print the metric, predictions, a drawing, and the next commands."""
    goal, scores = trained.task.target_metric, trained.evaluate("test")
    direction = "higher" if goal.higher_is_better else "lower"
    console.print(f"\nOn the test data: {goal.metric} {scores[goal.metric]:.4g} ({direction} is better)\n")
    _print_predictions(trained, console, name=str(trained.folder))


def _print_predictions(trained: Run, console: Console, *, name: str) -> None:
    """Print predictions of the examples, a drawing, and the next commands with the run's name."""
    examples = trained.task.examples
    predictions = [ranked[0] for ranked in trained.predict(examples)]
    for example, prediction in zip(examples, predictions, strict=True):
        console.print(f"  {example}\n" if example else "", markup=False, end="")
        console.print(f"  {prediction.text}\n", style="bold", markup=False)
    best = predictions[0] if predictions else None
    drawing = best.render(".txt").decode() if best and ".txt" in best.files else ""
    if drawing.strip() not in ("", best.text.strip() if best else ""):
        console.print(drawing, markup=False, no_wrap=True, overflow="crop")
    elif examples:
        draw_map(trained, examples[0], console)
    console.print(f"\nThe run is {name}. Next:", markup=False)
    for command, description in commands(trained, name, suffixes=list(best.files) if best else []):
        console.print(f"  {command}\n      {description}", markup=False, soft_wrap=True)


def draw_map(trained: Run, raw_input: str, console: Console) -> None:
    """Draw the most informative attention map of an input, if the model has attention."""
    from regard.cli.tables import attention_table
    from regard.inspection.collect import inspect_quickly
    from regard.inspection.report import target_of

    target = target_of(trained)
    if not target.has_attention:
        return
    inspection = inspect_quickly(target, raw_input)
    first = inspection.primary_map
    if first is None:
        return
    rows, columns = inspection.axes[first.queries], inspection.axes[first.keys]
    group = [
        attention for attention in inspection.maps if (attention.group, attention.batch) == (first.group, first.batch)
    ]
    mean = sum(attention.weights.mean(axis=0) for attention in group) / len(group)
    is_turned = max(map(len, columns.labels), default=0) > MAX_COLUMN_LABEL  # long labels are readable as rows
    sides = ("columns", "rows") if is_turned else ("rows", "columns")
    unit = "in percent, averaged over layers and heads"
    console.print(f"Attention of the {rows.title} ({sides[0]}) to the {columns.title} ({sides[1]}), {unit}:\n")
    labels, weights = merge_times(columns.labels, mean)
    table = (labels, rows.labels, weights.T) if is_turned else (rows.labels, labels, weights)
    console.print(attention_table(*table))


def merge_times(labels: Sequence[str], weights: NDArray[Any]) -> tuple[Sequence[str], NDArray[Any]]:
    """Keys at points of time and weights (t s) -> at most MAX_TIMES keys, each with the sum of adjacent weights."""
    count = -(-len(labels) // MAX_TIMES)
    if count < 2 or not all(label.replace(".", "", 1).isdecimal() for label in labels):
        return labels, weights
    import numpy as np

    return labels[::count], np.add.reduceat(weights, range(0, len(labels), count), axis=1)


def commands(trained: Run, name: str, *, suffixes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the next commands and what each is for."""
    regard, folder, task = program_name(), shlex.quote(name), trained.recipe.task.name
    verb = trained.verb if trained.verb in predict_command.VERBS else predict_command.ANY_TASK
    example = next((f" {shlex.quote(text)}" for text in trained.task.examples if text), "")
    files = "".join(f" --out new{suffix}" for suffix in suffixes if suffix != ".txt")
    yield f"{regard} {verb} {folder}{example}{files}", "predict for an input of yours"
    if example:
        yield f"{regard} look {folder}{example}", "show every attention map in a browser"
    yield f"{regard} evaluate {folder}", "compute all metrics"
    yield f"{regard} train {task} --help", "list every setting, for training on your own data"


def program_name() -> str:
    """Return the name by which the user called this program, so that commands can be copied."""
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{_shell_name(sys.executable)} -m regard"
    return _shell_name(sys.argv[0])


def _shell_name(program: str) -> str:
    """Return the name of a program if the shell resolves it to this file, else its path."""
    resolved = shutil.which(Path(program).name)
    name = Path(program).name if resolved and Path(resolved).absolute() == Path(program).absolute() else program
    return shlex.quote(name)
