"""`regard serve`: serve runs over HTTP, with the explorer; by default only to this machine."""

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
from regard.core.pretrained_runs import locate_run

PANEL = INSIDE
KEY = "REGARD_KEY"


def run(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="The run folders, or pretrained:NAME.",
            parser=locate_run,
            autocompletion=completion.runs,
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; by default only this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    *,
    initial_input: Annotated[
        str | None, typer.Option("--input", help="The first input of the first run's page.", show_default=False)
    ] = None,
    engine: Engine = "auto",
    workers: Annotated[int, typer.Option(help="Processes that share the port, each with the runs in its memory.")] = 1,
    trust: Trust = False,
) -> None:
    """Serve runs: POST /v1/VERB for each verb, documentation at /docs, and the explorer in the browser.

    If REGARD_KEY is set in the environment, every request must send that key.
    """
    from regard.serve.server import ServerConfig, address, listen, serve, serve_in_processes

    if workers < 1:
        raise ConfigError(f"--workers {workers}: give the number of processes, 1 or more")
    key = os.environ.get(KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{KEY}: a key is sent in a header and may only contain printable ASCII characters")
    if KEY in os.environ and (not key or key != key.strip()):
        raise ConfigError(f"{KEY} is empty or has spaces at its ends; set a key, or unset the variable to require none")
    config = ServerConfig(tuple(folders), initial_input, host, key, engine, trust, _log)
    with listen(host, port) as bound_socket:
        location = f"on {address(bound_socket, host)} (press Ctrl+C to stop)"
        if workers > 1:
            config, names = config.without_broken_runs()
            with TemporaryDirectory(prefix="regard-") as shared:
                shared_config = replace(config, processes=workers, shared=Path(shared))
                print(f"serving {', '.join(names)} with {workers} processes {location}", flush=True)
                serve_in_processes(shared_config, bound_socket, count=workers)
            return
        app = config()
        print(f"serving {', '.join(run.name for run in app.state.service.hosted)} {location}", flush=True)
        serve(app, bound_socket)


def _log(line: str) -> None:
    print("regard:", printable(line), file=sys.stderr, flush=True)
