"""`regard average`: the mean of a run's last weights, as a run of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.settings import TRAIN, Folder, Trust

PANEL = TRAIN


def run(
    folder: Folder,
    last: Annotated[int, typer.Option(min=1, help="How many evaluations, counted from the last.")] = 5,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.", show_default="RUN-average")] = None,
    *,
    trust: Trust = False,
) -> None:
    """Average the weights of a run's last evaluations into a new run."""
    from regard.training.average import average

    target = out if out is not None else folder.with_name(f"{folder.resolve().name}-average")
    average(folder, last=last, out=target, trust=trust)
    print(f"{target}: the mean of the last {last} evaluations; score it with: regard evaluate {target}")
