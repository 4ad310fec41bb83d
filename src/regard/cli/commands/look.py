"""`regard look`: an input through a run, as a page in the browser, a file that needs no network, or a figure."""

from __future__ import annotations

import socket
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.predict_command import PredictCommand, load_target
from regard.cli.settings import INSIDE, Folder, Trust, settings_of
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.inspection.collect import InspectionTarget

HOST = "127.0.0.1"
PANEL = INSIDE
Command = PredictCommand


def run(
    context: typer.Context,
    folder: Folder,
    given: Annotated[
        str, typer.Argument(metavar="INPUT", help="A text or a file. KEY=VALUE asks for more, as of the run's verb.")
    ],
    html: Annotated[Path | None, typer.Option(help="Write one page that works from disk with the network off.")] = None,
    *,
    png: Annotated[Path | None, typer.Option(help="Draw the map worth looking at first.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Draw it and all heads, for print.")] = None,
    port: Annotated[int, typer.Option(help="Where to serve the page.")] = 8765,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the browser.")] = False,
    trust: Trust = False,
) -> None:
    """Look at every attention map of an input: in the browser, or as files."""
    for path, suffix in ((png, ".png"), (pdf, ".pdf")):
        if path is not None and path.suffix.lower() != suffix:
            raise RegardError(f"{path}: --{suffix[1:]} writes a file that ends in {suffix}")
    from regard.inspection import figures
    from regard.inspection.collect import collect
    from regard.inspection.report import InspectionReport

    if html is None and png is None and pdf is None:
        from regard.serve.server import listen

        with listen(HOST, port) as taken:
            _show(
                load_target(folder, settings_of(context), trust=trust),
                given,
                taken,
                folder=folder,
                browser=not no_browser,
            )
        return
    looked = load_target(folder, settings_of(context), trust=trust)
    seen = InspectionReport(collect(looked, given))
    if html is not None:
        seen.save(html)
        print(f"wrote {html}")
    for path in (png, pdf):
        if path is not None:
            figures.save(seen.inspection, path)
            print(f"wrote {path}")


def _show(looked: InspectionTarget, given: str, taken: socket.socket, *, folder: Path, browser: bool) -> None:
    """Serve the page on this machine and open it in the browser."""
    from regard.serve import app as pages
    from regard.serve import server
    from regard.serve.server import address

    app, where = pages.explorer_app(looked, given), address(taken, HOST)
    print(f"looking at {folder} on {where} (Ctrl+C ends)", flush=True)
    if browser:
        timer = threading.Timer(1.0, webbrowser.open, [where])
        timer.daemon = True
        timer.start()
    server.serve(app, taken)
