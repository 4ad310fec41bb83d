"""`regard demo`: train a task on its built-in data, score it, ask it, draw what it looks at, and say how to go on."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import predict_command
from regard.cli.settings import START, SettingsCommand, settings_of
from regard.core.registry import find
from regard.tasks import DEFAULT_TASK

if TYPE_CHECKING:
    from rich.console import Console

    from regard.api.run import Run

PANEL = START
Command = SettingsCommand


def run(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="What to learn; see: regard list tasks.")] = DEFAULT_TASK,
    out: Annotated[
        Path | None, typer.Option(help="Keep the trained run in this folder.", show_default="a new one")
    ] = None,
) -> None:
    """Train a small model on built-in data and see it at work: no download, about 90 seconds."""
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
    """Its score, its answers, something to see, and the next commands."""
    goal, scores = trained.task.target_metric, trained.evaluate("test")
    better = "more" if goal.higher_is_better else "less"
    console.print(f"\nOn data it has never seen: {goal.metric} {scores[goal.metric]:.4g} ({better} is better)\n")
    examples = trained.task.examples
    answers = [ranked[0] for ranked in trained.predict(examples)]
    for given, answer in zip(examples, answers, strict=True):
        console.print(f"  {given}\n" if given else "", markup=False, end="")
        console.print(f"  {answer.text}\n", style="bold", markup=False)
    drawing = answers[0].render(".txt").decode() if answers and ".txt" in answers[0].files else ""
    if drawing.strip() not in ("", answers[0].text.strip() if answers else ""):
        console.print(drawing, markup=False, no_wrap=True, overflow="crop")
    elif examples:
        draw_map(trained, examples[0], console)
    console.print(f"\nThe run is in {trained.folder}. Next:", markup=False)
    for command, what in commands(trained, kinds=list(answers[0].files) if answers else []):
        console.print(f"  {command}\n      {what}", markup=False, soft_wrap=True)


def draw_map(trained: Run, raw_input: str, console: Console) -> None:
    """The kind of map of an input that is worth looking at first; nothing where the model has no attention."""
    from regard.cli.tables import attention_table
    from regard.inspection.collect import inspect_quickly
    from regard.inspection.report import target_of

    looked = target_of(trained)
    if not looked.has_attention:
        return
    seen = inspect_quickly(looked, raw_input)
    first = seen.primary_map
    if first is None:
        return
    rows, columns = seen.axes[first.queries], seen.axes[first.keys]
    alike = [attention for attention in seen.maps if (attention.group, attention.batch) == (first.group, first.batch)]
    mean = sum(attention.weights.mean(axis=0) for attention in alike) / len(alike)
    what = "in percent, layers and heads together"
    console.print(f"What each item of the {rows.title} (row) looks at in the {columns.title} (column), {what}:\n")
    console.print(attention_table(rows.labels, columns.labels, mean))


def commands(trained: Run, *, kinds: list[str]) -> Iterator[tuple[str, str]]:
    """Commands to go on with, as this one was called, and what each is for."""
    regard, folder, task = program_name(), shlex.quote(str(trained.folder)), trained.recipe.task.name
    verb = trained.verb if trained.verb in predict_command.VERBS else predict_command.ANY_TASK
    given = next((f" {shlex.quote(text)}" for text in trained.task.examples if text), "")
    files = "".join(f" --out new{kind}" for kind in kinds if kind != ".txt")
    yield f"{regard} {verb} {folder}{given}{files}", "an answer to an input of yours"
    if given:
        yield f"{regard} look {folder}{given}", "every attention map, in a browser"
    yield f"{regard} evaluate {folder}", "all scores, and how they are computed"
    yield f"{regard} train {task} --help", "every setting, for training on your own data"


def program_name() -> str:
    """How the user called this program, so that a command can be copied."""
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{_typed(sys.executable)} -m regard"
    return _typed(sys.argv[0])


def _typed(program: str) -> str:
    """A program's name where a shell finds this very one by it, else its path."""
    found = shutil.which(Path(program).name)
    name = Path(program).name if found and Path(found).absolute() == Path(program).absolute() else program
    return shlex.quote(name)
