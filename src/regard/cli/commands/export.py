"""`regard export`: export a run to another format and verify that the results are equal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.settings import USE, Folder, Trust

PANEL = USE


def run(
    folder: Folder,
    to: Annotated[str, typer.Option(help="huggingface, onnx, ctranslate2 or web.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to create; for web also an HTML file.", show_default="RUN-huggingface, …"),
    ] = None,
    *,
    trust: Trust = False,
) -> None:
    """Export a run to Hugging Face, ONNX or CTranslate2, verified to be equal, or to a page that runs it."""
    from regard.convert.export_run import export_run

    target = out if out is not None else folder.with_name(f"{folder.resolve().name}-{to}")
    for line in export_run(folder, to, target, trust=trust):
        print(line)
