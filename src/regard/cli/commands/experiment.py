"""`regard experiment`: measure claims about attention on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.output_files import check_targets
from regard.cli.settings import INSIDE, Force
from regard.core.errors import ConfigError, MissingExtra, did_you_mean
from regard.core.registry import find, registered_names

PANEL = INSIDE
PACKAGE, ALL = "regard.experiments", "all"
QUICK, FULL = 4.0, 25.0  # approximate minutes of an experiment on two cores


def run(
    name: Annotated[
        str,
        typer.Argument(help="The experiment, or all.", autocompletion=lambda: [*_experiment_names(), ALL]),
    ] = "",
    *,
    out: Annotated[Path, typer.Option(help="Folder for the figures, plots and pages.")] = Path("experiments"),
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="Use six times the budget of --quick: about 25 minutes an experiment instead of 4, on two cores.",
        ),
    ] = False,
    minutes: Annotated[float | None, typer.Option(help="Approximate minutes per experiment, instead.")] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Repeat with twice the budget and other seeds: does the verdict stay?"),
    ] = False,
    list_only: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Write all verdicts in --out as one Markdown page; NAME may be omitted."),
    ] = None,
    force: Force = False,
) -> None:
    """Measure claims about attention: a table, a plot and a verdict. An interrupted experiment is resumed."""
    if list_only or not (name or page):
        for experiment in _experiment_names():
            print(f"{experiment:<22} {find(PACKAGE, _file(experiment)).CLAIM}")
        return
    if minutes is not None and not 0 < minutes < 24 * 60:
        raise ConfigError(f"--minutes {minutes:g}: give more than 0 and less than a day")
    effort, name = (minutes or (FULL if full else QUICK)) / QUICK, name.replace("_", "-")
    if name and name not in (names := [*_experiment_names(), ALL]):
        raise ConfigError(f"unknown experiment {name!r}; {did_you_mean(name, names)}")
    check_targets((page,), force=force)
    if name == ALL:
        _run_all(out, effort, check=check, force=force)
    elif name:
        _run(name, out / name, effort, check=check, force=force)
    if page is not None:
        _write_page(out, page)


def _experiment_names() -> list[str]:
    """Return the experiments as written on the command line: soft-hard."""
    return [name.replace("_", "-") for name in registered_names(PACKAGE)]


def _file(name: str) -> str:
    return name.replace("-", "_")


def _run_all(out: Path, effort: float, *, check: bool, force: bool) -> None:
    """Run all experiments; one that lacks an extra does not stop the others."""
    failed = []
    for name in _experiment_names():
        try:
            _run(name, out / name, effort, check=check, force=force)
        except MissingExtra as missing:
            failed.append(f"{name}: {missing}")
    if failed:
        raise MissingExtra("; ".join(failed))


def _write_page(out: Path, page: Path) -> None:
    from regard.core.files import write_text
    from regard.experiments._summary_page import summary_page

    write_text(page, summary_page(out, page.parent))
    print(f"wrote {page}")


def _run(name: str, out: Path, effort: float, *, check: bool, force: bool) -> None:
    """Run one experiment, print its verdict, and repeat it if `check` is set."""
    experiment = find(PACKAGE, _file(name))
    from rich.console import Console

    from regard.experiments._runner import CHECK, FIGURES, PAGE, PLOT, run_check, run_experiment

    if out.is_dir() and not (out / FIGURES).exists():  # otherwise the files belong to this experiment
        check_targets((out / FIGURES, out / PAGE, out / PLOT), force=force)
    console = Console(highlight=False)
    with _progress(name) as update:
        verdict = run_experiment(experiment, name, out, effort=effort, on_progress=update)
    console.print(f"{name}: {experiment.CLAIM}", markup=False)
    console.print(f"{verdict.label.capitalize()} here.", style="bold")
    details = [f"Rule: {verdict.rule}"] if verdict.rule else []
    details += [f"Effect: {effect}" for effect in verdict.effects]
    for line in (verdict.reason, *details, verdict.text):
        console.print(line, markup=False)
    if check:
        with _progress(f"{name} --check") as update:
            checked = run_check(experiment, name, out, effort=effort, on_progress=update)
        console.print(f"Check: {checked.text}", markup=False)
    paths = [out / PAGE, out / PLOT, *([out / CHECK] if check else [])]
    console.print(f"wrote {', '.join(map(str, paths[:-1]))} and {paths[-1]}\n", markup=False, soft_wrap=True)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar; yield the callback that updates it."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        bar_task = bar.add_task(name)

        def update(done: int, count: int, current: str) -> None:
            bar.update(bar_task, completed=done, total=count, description=f"{name}: {current}")

        yield update
