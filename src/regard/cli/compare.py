"""`regard compare`: the same sentence through several runs, as a table and as one page."""

from __future__ import annotations

from pathlib import Path

from regard.core.errors import RegardError
from regard.core.files import write_text
from regard.inspection import compare
from regard.inspection.bundle import bundle
from regard.inspection.collect import inspect
from regard.inspection.look import subject
from regard.training import run as runs


def run(arguments: list[str], *, html: Path | None) -> None:
    """Run folders and, last, a text -> a table on the screen, and a page if a file is named."""
    if len(arguments) < 3:
        raise RegardError('compare needs two runs and a text: regard compare RUN RUN "a sentence"')
    *folders, text = arguments
    if Path(text).is_dir():
        raise RegardError(f'{text} is a run folder; the text comes last: regard compare RUN RUN "a sentence"')
    found = [inspect(subject(runs.load(folder)), text) for folder in folders]
    print_table(compare.table(found))
    for one in found:
        if not one.maps:
            print(f"{one.facts['run']}: no attention map; {one.model} hands the decoder a single vector")
    if html is not None:
        write_text(html, bundle(compare.to_page(found)))
        print(f"wrote {html}")


def print_table(rows: list[compare.Row]) -> None:
    """A row a run, figures to the right."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for number, name in enumerate(compare.COLUMNS):
        figures = isinstance(rows[0][number], int | float)
        shown.add_column(name, justify="right" if figures else "left")
    for row in rows:
        shown.add_row(*(_cell(value) for value in row))
    Console(highlight=False, markup=False).print(shown)


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
