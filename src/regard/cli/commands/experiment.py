"""`regard experiment`: claims about attention, each measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import INSIDE
from regard.core.errors import ConfigError
from regard.core.registry import find, names

PANEL = INSIDE
PACKAGE = "regard.experiments"
QUICK, FULL = 3.0, 30.0  # minutes of two cores that an experiment takes at most, about


def run(
    name: Annotated[
        str,
        typer.Argument(help="Which claim; all: one after the other.", autocompletion=lambda: [*names(PACKAGE), "all"]),
    ] = "",
    *,
    out: Annotated[Path, typer.Option(help="A folder for each experiment's figures, plot and page.")] = Path(
        "experiments"
    ),
    full: Annotated[bool, typer.Option("--full/--quick", help="Ten times the effort.")] = False,
    minutes: Annotated[float | None, typer.Option(help="About so many minutes for each, instead.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="What there is to measure.")] = False,
) -> None:
    """Measure what is said about attention: a table, a plot, and a verdict from the numbers. It goes on if stopped."""
    if listed or not name:
        for each in names(PACKAGE):
            print(f"{each:<14} {find(PACKAGE, each).CLAIM}")
        return
    if minutes is not None and not 0 < minutes < 24 * 60:
        raise ConfigError(f"--minutes {minutes:g}: give more than 0 and less than a day")
    chosen = names(PACKAGE) if name == "all" else [name]
    effort = (minutes or (FULL if full else QUICK)) / QUICK
    for each in chosen:
        _conduct(each, out / each, effort)


def _conduct(name: str, out: Path, effort: float) -> None:
    experiment = find(PACKAGE, name)
    from rich.console import Console
    from rich.progress import Progress

    from regard.experiments._conduct import PAGE, PLOT, conduct

    console = Console(highlight=False)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(name)

        def tell(done: int, count: int, current: str) -> None:
            bar.update(line, completed=done, total=count, description=f"{name}: {current}")

        verdict = conduct(experiment, name, out, effort=effort, tell=tell)
    console.print(f"{name}: {experiment.CLAIM}", markup=False)
    console.print("Holds here." if verdict.holds else "Does not hold here.", style="bold")
    console.print(verdict.text, markup=False)
    console.print(f"wrote {out / PAGE} and {out / PLOT}\n", markup=False, soft_wrap=True)
