"""`regard compare`: the same input through several runs, and their scores, as a table and as one page."""

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

if TYPE_CHECKING:
    from rich.console import Console

    from regard.api.run import Run
    from regard.inspection.json_format import Inspection

PANEL = INSIDE
Command = PredictCommand
Facts = dict[str, Any]  # what is known of a run, by the name of the column


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
    split: Annotated[
        str | None, typer.Option(help="Score the runs on this part of their data too: valid, test.")
    ] = None,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Put one input through several runs: outputs, scores, speed, size, maps."""
    folders, given = _read(words, scored=split is not None)
    from rich.console import Console

    from regard.api.run import load
    from regard.inspection import compare

    runs = [load(folder, trust=trust) for folder in folders]
    _check_split(runs, split)
    called = compare.unique_names(folders)
    facts: list[Facts] = [{"run": name} for name in called]
    inspections: list[Inspection] = []
    if given is not None:
        from regard.inspection.collect import inspect

        settings = settings_of(context)
        looked = [target_with_settings(run, settings, name=name) for run, name in zip(runs, called, strict=True)]
        inspections = [inspect(subject, given) for subject in looked]
        rows = compare.table(inspections)
        facts = [dict(zip(compare.COLUMNS, row, strict=True)) for row in rows]
    for known, run in zip(facts, runs, strict=True):
        known.update(model=run.recipe.model.name, parameters=run.parameters)
        known.update({"split": split, "scores": run.evaluate(split)} if split else {})
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        show(facts, Console(highlight=False, markup=False))
        for inspection in inspections:
            if not inspection.maps:
                print(f"{inspection.facts['run']}: no attention map; {inspection.model} attends to nothing")
    if html is not None:
        _write(html, inspections, quiet=as_json)


def _read(words: Sequence[str], *, scored: bool) -> tuple[list[Path], str | None]:
    """Runs, and the input; where runs are scored there need be none."""
    if scored and len(words) >= 2 and all((Path(word) / "config.json").exists() for word in words):
        return [Path(word) for word in words], None
    if len(words) < 3:
        raise RegardError('compare needs two runs and an input: regard compare RUN RUN "a sentence"')
    *folders, given = words
    if (Path(given) / "config.json").exists():
        raise RegardError(
            f'{given} is a run folder; the input comes last: regard compare RUN RUN "a sentence"; '
            "to compare scores alone: --split test"
        )
    return [Path(folder) for folder in folders], given


def _check_split(runs: Sequence[Run], split: str | None) -> None:
    """Refuse a split that a run does not have, before anything is computed."""
    for run in runs if split else ():
        evaluate.select_split(run, split)


def _write(html: Path, inspections: Sequence[Inspection], *, quiet: bool) -> None:
    from regard.core.files import write_text
    from regard.inspection import compare
    from regard.inspection.html_bundle import bundle

    if not inspections:
        raise RegardError(f"--html {html} shows an input; give one behind the runs")
    write_text(html, bundle(compare.to_page(inspections)))
    if not quiet:
        print(f"wrote {html}")


def show(facts: Sequence[Facts], console: Console) -> None:
    """Figures as a table, a column a run; below it what each run answered, wrapped between words."""
    from rich.table import Table
    from rich.text import Text

    flat = [_flat(known) for known in facts]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("what")
    for _ in flat:
        table.add_column("run", justify="right", overflow="fold")
    for name in dict.fromkeys(name for known in flat for name, value in known.items() if value is not None):
        table.add_row(name, *(_cell(known.get(name)) for known in flat))
    console.print(table)
    for known in facts:
        if known.get("output") is not None:
            console.print(f"\n{known['run']}:")
            for line in Text(str(known["output"])).wrap(console, max(20, console.width - 4)):
                console.print("    " + line.plain)


def _flat(known: Facts) -> Facts:
    """Figures alone, each under a name of its own."""
    scores = {f"{name} on {known['split']}": round(value, 4) for name, value in known.get("scores", {}).items()}
    return {name: value for name, value in known.items() if name not in ("output", "split", "scores")} | scores


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
