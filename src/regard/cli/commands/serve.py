"""`regard serve`: runs as a service and in the explorer, for this machine unless another host is named."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import completion
from regard.cli.arguments import INSIDE, Engine, Trust

PANEL = INSIDE
KEY = "REGARD_KEY"


def run(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="The run folders.", autocompletion=completion.runs)
    ],
    host: Annotated[str, typer.Option(help="Whom to answer; this machine alone unless told otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where.")] = 8000,
    *,
    given: Annotated[
        str | None, typer.Option("--input", help="What the first run's page shows first.", show_default=False)
    ] = None,
    engine: Engine = "native",
    trust: Trust = False,
) -> None:
    """Serve runs: their verbs as POST /v1/VERB, what can be asked at /docs, and the explorer in the browser.

    If REGARD_KEY is set in the environment, every request must have that key.
    """
    from regard.core.errors import RegardError, printable
    from regard.serve.app import serve
    from regard.serve.hosted import open_runs
    from regard.serve.listen import address, listen
    from regard.serve.service import create

    with listen(host, port) as taken:
        hosted, wrong = open_runs(folders, engine=engine, trust=trust)
        if not hosted and len(wrong) == 1:
            raise RegardError(next(iter(wrong.values())))
        for folder, line in wrong.items():
            print(f"regard: {folder} is not served: {printable(line)}", file=sys.stderr)
        app = create(hosted, given, host=host, key=os.environ.get(KEY, ""))
        names = ", ".join(each.name for each in hosted)
        print(f"serving {names} on {address(taken, host)} (Ctrl+C ends)", flush=True)
        serve(app, taken)
