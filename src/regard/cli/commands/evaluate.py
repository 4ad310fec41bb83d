"""`regard evaluate`: the scores of a run on a split, with how they were computed; kept in the run folder."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import USE, Folder, Json, Trust
from regard.cli.scores import tables
from regard.cli.words import Words, settings_of

if TYPE_CHECKING:
    from regard.api.run import Run

PANEL = USE
Command = Words


def run(
    context: typer.Context,
    folder: Folder,
    split: Annotated[str, typer.Option(help="Which part of the data.")] = "test",
    *,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Score a run on held-out data and say how the scores were computed; decoding=beam … changes the search."""
    from rich.console import Console

    from regard.api.run import load

    report = evaluate(load(folder, settings_of(context), trust=trust), split)
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    console = Console(markup=False)
    for table in tables(report["scores"], report["signatures"], title=f"{folder} on {split}"):
        console.print(table)


def evaluate(run: Run, split: str) -> dict[str, Any]:
    """Scores, their signatures and the time they took, as written to evaluation-<split>-<decoder>.json."""
    from regard.training import sealed

    begin = time.perf_counter()
    scores = run.evaluate(split) | run.report(split)
    decoding = run.recipe.to_dict().get("decoding", {})
    report = {
        "split": split,
        "decoding": decoding,
        "scores": scores,
        "signatures": run.task.signatures(),
        "parameters": run.parameters,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    sealed.write_json(run.folder / f"evaluation-{split}-{decoding.get('name', 'none')}.json", report)
    return report
