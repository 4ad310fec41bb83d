"""`regard average`: average the last weights of a run into a new run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.settings import TRAIN, Folder, Trust

PANEL = TRAIN


def run(
    folder: Folder,
    last: Annotated[int, typer.Option(min=1, help="Number of evaluations, counted from the last.")] = 5,
    out: Annotated[Path | None, typer.Option(help="The run folder to create.", show_default="RUN-average")] = None,
    *,
    trust: Trust = False,
) -> None:
    """Average the weights of the last evaluations of a run into a new run."""
    from regard.training.average import average

    target = out if out is not None else folder.with_name(f"{folder.resolve().name}-average")
    average(folder, last=last, out=target, trust=trust)
    print(f"{target}: the mean of the last {last} evaluations; evaluate it with: regard evaluate {target}")
