"""`regard experiment`: claims about attention, each measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.settings import INSIDE
from regard.core.errors import ConfigError, MissingExtra, did_you_mean
from regard.core.registry import find, registered_names

PANEL = INSIDE
PACKAGE, ALL = "regard.experiments", "all"
QUICK, FULL = 3.0, 30.0  # minutes of two cores that an experiment takes at most, about


def run(
    name: Annotated[
        str,
        typer.Argument(help="Which claim; all: one after the other.", autocompletion=lambda: [*_listed(), ALL]),
    ] = "",
    *,
    out: Annotated[Path, typer.Option(help="A folder for each experiment's figures, plot and page.")] = Path(
        "experiments"
    ),
    full: Annotated[bool, typer.Option("--full/--quick", help="Ten times the effort.")] = False,
    minutes: Annotated[float | None, typer.Option(help="About so many minutes for each, instead.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="What there is to measure.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Afterwards write all verdicts in --out as one Markdown page; NAME may be left out."),
    ] = None,
) -> None:
    """Measure what is said about attention: a table, a plot, and a verdict from the numbers. It goes on if stopped."""
    if list_only or not (name or page):
        for each in _listed():
            print(f"{each:<14} {find(PACKAGE, _file(each)).CLAIM}")
        return
    if minutes is not None and not 0 < minutes < 24 * 60:
        raise ConfigError(f"--minutes {minutes:g}: give more than 0 and less than a day")
    effort, name = (minutes or (FULL if full else QUICK)) / QUICK, name.replace("_", "-")
    if name and name not in (known := [*_listed(), ALL]):
        raise ConfigError(f"unknown experiment {name!r}; {did_you_mean(name, known)}")
    if name == ALL:
        _conduct_all(out, effort)
    elif name:
        _conduct(name, out / name, effort)
    if page is not None:
        _write_page(out, page)


def _listed() -> list[str]:
    """Experiments as people write them: soft-hard."""
    return [name.replace("_", "-") for name in registered_names(PACKAGE)]


def _file(name: str) -> str:
    return name.replace("-", "_")


def _conduct_all(out: Path, effort: float) -> None:
    """One after the other; one that cannot be made, for want of an extra, does not keep the others from it."""
    failed = []
    for name in _listed():
        try:
            _conduct(name, out / name, effort)
        except MissingExtra as missing:
            failed.append(f"{name}: {missing}")
    if failed:
        raise MissingExtra("; ".join(failed))


def _write_page(out: Path, page: Path) -> None:
    from regard.core.files import write_text
    from regard.experiments._summary_page import summary_page

    write_text(page, summary_page(out, page.parent))
    print(f"wrote {page}")


def _conduct(name: str, out: Path, effort: float) -> None:
    experiment = find(PACKAGE, _file(name))
    from rich.console import Console
    from rich.progress import Progress

    from regard.experiments._runner import PAGE, PLOT, run_experiment

    console = Console(highlight=False)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(name)

        def tell(done: int, count: int, current: str) -> None:
            bar.update(line, completed=done, total=count, description=f"{name}: {current}")

        verdict = run_experiment(experiment, name, out, effort=effort, on_progress=tell)
    console.print(f"{name}: {experiment.CLAIM}", markup=False)
    console.print(f"{verdict.label.capitalize()} here.", style="bold")
    console.print(verdict.text, markup=False)
    console.print(f"wrote {out / PAGE} and {out / PLOT}\n", markup=False, soft_wrap=True)
