"""The same input through several runs: one table, and the data of one page. A model without attention has no map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.core.errors import RegardError
from regard.inspection.format import Inspection, to_json
from regard.inspection.pack import Budget

COLUMNS = ("run", "model", "parameters", "output", "log p", "alignment error", "seconds")
Row = tuple[str | int | float | None, ...]


def table(found: Sequence[Inspection]) -> list[Row]:
    """Inspections of one input -> a row each; None where a figure is not known."""
    if len(found) < 2:
        raise RegardError(f"there are {len(found)} runs to compare; give two or more")
    if len({one.title for one in found}) > 1:
        raise RegardError("the runs were given different inputs; compare them on the same one")
    return [_row(one) for one in found]


def _row(one: Inspection) -> Row:
    best = one.outputs[0] if one.outputs else None
    aligned = one.alignment
    return (
        one.facts.get("run", one.model),
        one.model,
        one.facts.get("parameters"),
        None if best is None else best.text,
        None if best is None else round(best.score, 4),
        None if aligned is None else round(aligned.rates[aligned.best]["mean"], 4),
        one.facts.get("seconds"),
    )


def to_page(found: Sequence[Inspection]) -> dict[str, Any]:
    """The data of the page that shows them side by side."""
    rows = table(found)
    budget = Budget()
    runs = [to_json(one, budget=budget) for one in found]
    return {"title": found[0].title, "runs": runs, "columns": list(COLUMNS), "table": [list(row) for row in rows]}
