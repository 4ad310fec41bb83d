"""`regard evaluate`: the scores of a run on a split, with how they were computed; kept in the run folder."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.api.run import Run, load
from regard.inspection.aer import alignment_errors
from regard.training import files


def run(folder: Path, settings: list[str], *, split: str, as_json: bool) -> None:
    """Evaluate, print, and write evaluation-<split>-<decoder>.json into the run folder."""
    report = evaluate(load(folder, settings), split)
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    table = Table("score", "value", "computed as", title=f"{folder} on {split}")
    for name, value in report["scores"].items():
        table.add_row(name, f"{value:.4g}", report["signatures"].get(name, ""))
    Console().print(table)


def evaluate(found: Run, split: str) -> dict[str, Any]:
    """Scores, their signatures and the time they took, as written to the run folder."""
    begin = time.perf_counter()
    scores = found.evaluate(split)
    if hasattr(found.task, "compare"):  # what it makes by itself, beside the data
        scores |= found.task.compare(found.model, split, found.recipe.decoder())
    rates = alignment_errors(found.task, found.model, split=split) if hasattr(found.task, "translate") else {}
    if rates:  # the best layer's, as is usual where a model has several
        scores |= {"aer": min(rates.values())}
    decoding = found.recipe.to_dict().get("decoding", {})
    report = {
        "split": split,
        "decoding": decoding,
        "scores": scores,
        "signatures": found.task.signatures() if hasattr(found.task, "signatures") else {},
        "parameters": sum(weight.numel() for weight in found.model.parameters()),
        "seconds": round(time.perf_counter() - begin, 1),
    }
    files.write_json(found.folder / f"evaluation-{split}-{decoding.get('name', 'none')}.json", report)
    return report
