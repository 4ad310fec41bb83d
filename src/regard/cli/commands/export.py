"""`regard export`: a run for other programs, verified against what they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.settings import USE, Folder, Trust

PANEL = USE


def run(
    folder: Folder,
    to: Annotated[str, typer.Option(help="huggingface, onnx or ctranslate2.")],
    out: Annotated[Path | None, typer.Option(help="The folder to make.", show_default="RUN-huggingface, …")] = None,
    *,
    trust: Trust = False,
) -> None:
    """Write a run as a folder that another program reads, after both were found to compute the same."""
    from regard.convert.export_run import export_run

    target = out if out is not None else folder.with_name(f"{folder.resolve().name}-{to}")
    for line in export_run(folder, to, target, trust=trust):
        print(line)
