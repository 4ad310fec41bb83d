"""`regard compare`: the same input through several runs, as a table and as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import INSIDE, Trust
from regard.cli.asking import Asking, subject_of
from regard.cli.words import settings_of
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.inspection.compare import Row

PANEL = INSIDE
Command = Asking


def run(
    context: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="RUN RUN… INPUT|KEY=VALUE", help="Two or more runs, then a text or a file.")
    ],
    html: Annotated[Path | None, typer.Option(help="Write one page with the maps side by side.")] = None,
    *,
    trust: Trust = False,
) -> None:
    """Put one input through several runs: outputs, scores, speed, size, maps."""
    if len(words) < 3:
        raise RegardError('compare needs two runs and an input: regard compare RUN RUN "a sentence"')
    *folders, given = words
    if (Path(given) / "config.json").exists():
        raise RegardError(f'{given} is a run folder; the input comes last: regard compare RUN RUN "a sentence"')
    from regard.core.files import write_text
    from regard.inspection import compare
    from regard.inspection.bundle import bundle
    from regard.inspection.collect import inspect

    subjects = [subject_of(Path(folder), settings_of(context), trust=trust) for folder in folders]
    inspections = [inspect(subject, given) for subject in subjects]
    _print(compare.COLUMNS, compare.table(inspections))
    for inspection in inspections:
        if not inspection.maps:
            print(f"{inspection.facts['run']}: no attention map; {inspection.model} attends to nothing")
    if html is not None:
        write_text(html, bundle(compare.to_page(inspections)))
        print(f"wrote {html}")


def _print(columns: tuple[str, ...], rows: list[Row]) -> None:
    """A row a run, figures to the right; what is known of none is left out."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    kept = [number for number in range(len(columns)) if any(row[number] is not None for row in rows)]
    for number in kept:
        figures = any(isinstance(row[number], int | float) for row in rows)
        shown.add_column(columns[number], justify="right" if figures else "left")
    for row in rows:
        shown.add_row(*(_cell(row[number]) for number in kept))
    Console(highlight=False, markup=False).print(shown)


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
