"""`regard compare`: predict the same input with several runs and compare their metrics, as a table and as one page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import evaluate
from regard.cli.completion import complete_compare
from regard.cli.predict_command import PredictCommand, target_with_settings
from regard.cli.settings import INSIDE, Json, Trust, settings_of
from regard.core.errors import RegardError
from regard.core.pretrained_runs import locate_run

if TYPE_CHECKING:
    from rich.console import Console

    from regard.api.run import Run
    from regard.inspection.json_format import Inspection

PANEL = INSIDE
Command = PredictCommand
Facts = dict[str, Any]  # column -> value, for one run


def run(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN… INPUT|KEY=VALUE",
            help="Two or more runs, then a text or a file.",
            autocompletion=complete_compare,
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="Write one page with the maps side by side.")] = None,
    *,
    split: Annotated[str | None, typer.Option(help="Also evaluate the runs on this split: valid, test.")] = None,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Compare runs on one input: outputs, metrics, speed, size, attention maps."""
    folders, raw_input = _split_arguments(words, is_evaluated=split is not None)
    from rich.console import Console

    from regard.api.run import load
    from regard.inspection import compare

    runs = [load(folder, trust=trust) for folder in folders]
    _check_split(runs, split)
    names = compare.unique_names(folders)
    facts: list[Facts] = [{"run": name} for name in names]
    inspections: list[Inspection] = []
    if raw_input is not None:
        from regard.inspection.collect import inspect

        settings = settings_of(context)
        targets = [target_with_settings(run, settings, name=name) for run, name in zip(runs, names, strict=True)]
        inspections = [inspect(target, raw_input) for target in targets]
        rows = compare.table(inspections)
        facts = [dict(zip(compare.COLUMNS, row, strict=True)) for row in rows]
    for row, run in zip(facts, runs, strict=True):
        row.update(model=run.recipe.model.name, parameters=run.parameters)
        row.update({"split": split, "scores": run.evaluate(split)} if split else {})
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print_comparison(facts, Console(highlight=False, markup=False))
        for inspection in inspections:
            if not inspection.maps:
                print(f"{inspection.facts['run']}: no attention map; {inspection.model} has no attention")
    if html is not None:
        _write(html, inspections, quiet=as_json)


def _split_arguments(words: Sequence[str], *, is_evaluated: bool) -> tuple[list[Path], str | None]:
    """Return the runs and the input; the input is optional if the runs are evaluated."""
    words = [str(locate_run(word)) for word in words]
    if is_evaluated and len(words) >= 2 and all((Path(word) / "config.json").exists() for word in words):
        return [Path(word) for word in words], None
    if len(words) < 3:
        raise RegardError('compare needs two runs and an input: regard compare RUN RUN "a sentence"')
    *folders, raw_input = words
    if (Path(raw_input) / "config.json").exists():
        raise RegardError(
            f'{raw_input} is a run folder; the input comes last: regard compare RUN RUN "a sentence"; '
            "to compare only metrics: --split test"
        )
    return [Path(folder) for folder in folders], raw_input


def _check_split(runs: Sequence[Run], split: str | None) -> None:
    """Raise an error for a split that a run does not have, before anything is computed."""
    for run in runs if split else ():
        evaluate.select_split(run, split)


def _write(html: Path, inspections: Sequence[Inspection], *, quiet: bool) -> None:
    from regard.core.files import write_text
    from regard.inspection import compare
    from regard.inspection.html_bundle import bundle

    if not inspections:
        raise RegardError(f"--html {html} needs an input; give one after the runs")
    write_text(html, bundle(compare.to_page(inspections)))
    if not quiet:
        print(f"wrote {html}")


def print_comparison(facts: Sequence[Facts], console: Console) -> None:
    """Print figures as a table with one column per run, and the output of each run below it."""
    from rich.table import Table
    from rich.text import Text

    flat = [_figures(row) for row in facts]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("what")
    for _ in flat:
        table.add_column("run", justify="right", overflow="fold")
    for name in dict.fromkeys(name for row in flat for name, value in row.items() if value is not None):
        table.add_row(name, *(_cell(row.get(name)) for row in flat))
    console.print(table)
    for row in facts:
        if row.get("output") is not None:
            console.print(f"\n{row['run']}:")
            for line in Text(str(row["output"])).wrap(console, max(20, console.width - 4)):
                console.print("    " + line.plain)


def _figures(row: Facts) -> Facts:
    """Return the figures of a run with flat names."""
    scores = {f"{name} on {row['split']}": round(value, 4) for name, value in row.get("scores", {}).items()}
    return {name: value for name, value in row.items() if name not in ("output", "split", "scores")} | scores


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
