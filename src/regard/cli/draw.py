"""An attention map in the terminal: shaded cells with the weight in percent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

SHADES = ("#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#084594")  # light to dark blue

MOST = 24  # rows and columns that a terminal has room for


def draw(rows: Sequence[str], columns: Sequence[str], weights: NDArray[Any]) -> Table:
    """Labels of queries and keys, weights (t s) -> a table; columns are what is looked at. Of a large map, the first
    rows and columns."""
    table = Table(box=None, padding=(0, 0), header_style="", pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    for label in columns[:MOST]:
        table.add_column(label, justify="center", no_wrap=True, min_width=max(3, cell_len(label)) + 1)
    for label, row in zip(rows[:MOST], weights[:MOST, :MOST].tolist(), strict=True):
        table.add_row(f"{label} ", *(_cell(weight) for weight in row))
    return table


def _cell(weight: float) -> Text:
    shade = min(len(SHADES) - 1, int(weight * len(SHADES)))
    ink = "black" if shade < len(SHADES) // 2 else "white"
    text = f"{100 * weight:.0f}" if weight >= 0.005 else "·"
    return Text(text.center(4), style=f"{ink} on {SHADES[shade]}")
