"""The same input through several runs: one table, and the data of one page. A model without attention has no map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.inspection.json_format import Inspection, to_json
from regard.inspection.map_tiles import Budget

COLUMNS = ("run", "model", "parameters", "output", "log p", "alignment error", "seconds")
Row = tuple[str | int | float | None, ...]


def unique_names(folders: Sequence[Path]) -> list[str]:
    """Folders -> a short name for each: as many of their last parts as tell them apart, numbered where nothing does."""
    paths = [folder.resolve().parts for folder in folders]
    longest = max(map(len, paths))
    for count in range(1, longest + 1):
        short = ["/".join(parts[-count:]) for parts in paths]
        if len(set(short)) == len(short):
            return short
    return [f"{Path(*parts).name} ({number})" for number, parts in enumerate(paths, start=1)]


def table(inspections: Sequence[Inspection]) -> list[Row]:
    """Inspections of one input -> a row each; None where a figure is not known."""
    if len(inspections) < 2:
        raise RegardError(f"there are {len(inspections)} runs to compare; give two or more")
    if len({inspection.text for inspection in inspections}) > 1:
        raise RegardError("the runs were given different inputs; compare them on the same one")
    return [_row(inspection) for inspection in inspections]


def _row(inspection: Inspection) -> Row:
    best = inspection.outputs[0] if inspection.outputs else None
    truth = inspection.truth
    return (
        inspection.facts.get("run", inspection.model),
        inspection.model,
        inspection.facts.get("parameters"),
        None if best is None else best.text,
        None if best is None or best.score is None else round(best.score, 4),
        None if truth is None else round(truth.rates[truth.best]["mean"], 4),
        inspection.facts.get("seconds"),
    )


def to_page(inspections: Sequence[Inspection]) -> dict[str, Any]:
    """The data of the page that shows them side by side; columns that nobody has anything in are left out."""
    rows = table(inspections)
    kept = [number for number in range(len(COLUMNS)) if any(row[number] is not None for row in rows)]
    budget = Budget()
    return {
        "title": inspections[0].title or inspections[0].text,
        "runs": [to_json(inspection, budget=budget) for inspection in inspections],
        "columns": [COLUMNS[number] for number in kept],
        "table": [[row[number] for number in kept] for row in rows],
    }
