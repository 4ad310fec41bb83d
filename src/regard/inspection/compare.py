"""Compare several runs on one input: a table, and the data of a page. A model without attention has no maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError, pluralize
from regard.inspection.json_format import Inspection, to_json
from regard.inspection.map_tiles import Budget

COLUMNS = ("run", "model", "parameters", "output", "log p", "alignment error", "seconds")
Row = tuple[str | int | float | None, ...]


def unique_names(folders: Sequence[Path]) -> list[str]:
    """Return a short unique name for each folder: as many last path parts as needed; equal paths are numbered."""
    paths = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, paths)) + 1):
        names = ["/".join(parts[-count:]) for parts in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{Path(*parts).name} ({index})" for index, parts in enumerate(paths, start=1)]


def table(inspections: Sequence[Inspection]) -> list[Row]:
    """Return a row for each inspection of the same input; unknown values are None."""
    if len(inspections) < 2:
        raise RegardError(f"cannot compare {pluralize(len(inspections), 'run')}; give two or more")
    if len({inspection.text for inspection in inspections}) > 1:
        raise RegardError("the runs have different inputs; compare them on the same input")
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
    """Return the data of the page that shows the runs side by side, without empty columns."""
    rows = table(inspections)
    used = [column for column in range(len(COLUMNS)) if any(row[column] is not None for row in rows)]
    budget = Budget()
    return {
        "title": inspections[0].title or inspections[0].text,
        "runs": [to_json(inspection, budget=budget) for inspection in inspections],
        "columns": [COLUMNS[column] for column in used],
        "table": [[row[column] for column in used] for row in rows],
    }
