"""Arguments and options that several commands have, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import completion

START, TRAIN, USE, INSIDE = PANELS = ("Start", "Train", "Use a run", "Look inside a run")

Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.", autocompletion=completion.runs)]
Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT|KEY=VALUE",
        help="Texts (or files, where the task reads files), and what is asked of them.",
        show_default=False,
        autocompletion=completion.asking,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
Engine = Annotated[str, typer.Option(help="auto (the fastest that answers alike), native, int8 or ctranslate2.")]
Precision = Annotated[str, typer.Option(help="float32, or int8: faster where models are wide, not exact.")]
Workers = Annotated[int, typer.Option(help="Processes for long inputs.", show_default="one for each core")]
OnError = Annotated[
    str | None,
    typer.Option(
        help="What becomes of an input that cannot be answered: stop, skip it, or blank (an empty line).",
        show_default="blank for standard input, else stop",
    ),
]
Ray = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS|local",
        help="Let a Ray cluster answer: many machines, or a cluster of this one (extra ray).",
        show_default=False,
    ),
]
Trust = Annotated[bool, typer.Option("--trust", help="Let the run import code from outside regard and fetch its data.")]
Out = Annotated[
    list[Path] | None,
    typer.Option(help="Write the answer to a file; its suffix says as what. May be given several times."),
]
