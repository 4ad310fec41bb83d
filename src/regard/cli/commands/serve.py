"""`regard serve`: the explorer of a run, for this machine unless another host is named."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.arguments import INSIDE, Folder, Trust

PANEL = INSIDE


def run(
    folder: Folder,
    given: Annotated[
        str | None, typer.Argument(metavar="INPUT", help="What is shown first.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Whom to answer; this machine alone unless told otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where.")] = 8765,
    *,
    trust: Trust = False,
) -> None:
    """Serve the explorer of a run: new inputs and what-if in the browser."""
    from regard.api.run import load
    from regard.serve.app import create, serve
    from regard.serve.listen import address, listen

    with listen(host, port) as taken:
        app = create(load(folder, trust=trust), given, host=host)
        print(f"serving {folder} on {address(taken, host)} (Ctrl+C ends)", flush=True)
        serve(app, taken)
