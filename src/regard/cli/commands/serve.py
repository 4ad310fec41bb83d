"""`regard serve`: runs as a service and in the explorer, for this machine unless another host is named."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from regard.cli import completion
from regard.cli.settings import INSIDE, Engine, Trust
from regard.core.errors import ConfigError, printable

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
    engine: Engine = "auto",
    workers: Annotated[int, typer.Option(help="Processes that share the port, each with the runs in its memory.")] = 1,
    trust: Trust = False,
) -> None:
    """Serve runs: their verbs as POST /v1/VERB, what can be asked at /docs, and the explorer in the browser.

    If REGARD_KEY is set in the environment, every request must have that key.
    """
    from regard.serve.server import ServerConfig, address, listen, serve, serve_in_processes

    if workers < 1:
        raise ConfigError(f"--workers {workers}: give the number of processes, 1 or more")
    key = os.environ.get(KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{KEY}: a key goes in a header of a request, so it has ASCII letters, digits and signs only")
    if KEY in os.environ and (not key or key != key.strip()):
        raise ConfigError(f"{KEY} is set, but empty or with spaces at its ends; give a key, or unset it to want none")
    starting = ServerConfig(tuple(folders), given, host, key, engine, trust, _say)
    with listen(host, port) as taken:
        where = f"on {address(taken, host)} (Ctrl+C ends)"
        if workers > 1:
            starting, names = starting.without_broken_runs()
            with TemporaryDirectory(prefix="regard-") as shared:
                several = replace(starting, processes=workers, shared=Path(shared))
                print(f"serving {', '.join(names)} by {workers} processes {where}", flush=True)
                serve_in_processes(several, taken, count=workers)
            return
        app = starting()
        print(f"serving {', '.join(each.name for each in app.state.service.hosted)} {where}", flush=True)
        serve(app, taken)


def _say(line: str) -> None:
    print("regard:", printable(line), file=sys.stderr, flush=True)
