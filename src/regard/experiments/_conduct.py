"""An experiment is conducted: cell by cell into a file that it can go on from, then a table, a plot and a verdict."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from regard.core.errors import DataError
from regard.core.extras import require
from regard.core.files import write_bytes
from regard.core.seed import kept
from regard.experiments._experiment import Figures, Verdict

FIGURES, PAGE, PLOT = "figures.json", "page.md", "plot.png"
Tell = Callable[[int, int, str], None]  # cells that are done, of how many, and which comes next


def conduct(experiment: ModuleType, name: str, out: Path, *, effort: float, tell: Tell) -> Verdict:
    """Measure what is not measured yet, and write figures, plot and page into the folder `out`."""
    place, cells = out / FIGURES, experiment.cells(effort)
    figures = read(place, effort)
    for number, cell in enumerate(cells):
        tell(number, len(cells), cell.name)
        if cell.name not in figures:
            with kept():
                torch.manual_seed(number)
                figures[cell.name] = cell.measure()
            out.mkdir(parents=True, exist_ok=True)
            write_bytes(place, json.dumps({"effort": effort, "figures": figures}, indent=1).encode())
    tell(len(cells), len(cells), "")
    known = {cell.name: figures[cell.name] for cell in cells}
    verdict: Verdict = experiment.verdict(known)
    write_bytes(out / PLOT, _plot(experiment, known))
    write_bytes(out / PAGE, page(experiment, name, known, effort=effort).encode())
    return verdict


def read(place: Path, effort: float) -> dict[str, dict[str, float]]:
    """The figures of cells that were measured before with the same effort."""
    if not place.exists():
        return {}
    try:
        table = json.loads(place.read_text(encoding="utf-8"))
        return dict(table["figures"]) if table["effort"] == effort else {}
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{place}: it is not the file of an experiment; delete it, or choose another --out") from None


def page(experiment: ModuleType, name: str, figures: Figures, *, effort: float) -> str:
    """Claim, verdict, table and plot as Markdown."""
    verdict: Verdict = experiment.verdict(figures)
    return "\n".join(
        [
            f"## {name}",
            "",
            f"{experiment.CLAIM} ({experiment.WHERE})",
            "",
            f"**{'Holds here' if verdict.holds else 'Does not hold here'}.** {verdict.text}",
            "",
            *table(figures),
            "",
            f"![{name}]({PLOT})",
            "",
            f"Made by `regard experiment {name}`, effort {effort:g}.",
            "",
        ]
    )


def table(figures: Figures) -> list[str]:
    """Lines of a table: a row a cell, a column a figure."""
    columns = list(dict.fromkeys(column for numbers in figures.values() for column in numbers))
    rows = [[name, *(_short(numbers.get(column)) for column in columns)] for name, numbers in figures.items()]
    return ["| " + " | ".join(row) + " |" for row in [["", *columns], ["---"] * (1 + len(columns)), *rows]]


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _plot(experiment: ModuleType, figures: Figures) -> bytes:
    figure: Any = require("matplotlib.figure", extra="plots").Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    experiment.draw(figures, axes)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
