"""`regard look`: an input through a run, as a page in the browser, a file that needs no network, or a figure."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import INSIDE, Folder, Trust
from regard.cli.asking import Asking, subject_of
from regard.cli.words import settings_of
from regard.core.errors import RegardError

PANEL = INSIDE
Command = Asking


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
    quiet: Annotated[bool, typer.Option(help="Do not open the browser.")] = False,
    trust: Trust = False,
) -> None:
    """Look at every attention map of an input: in the browser, or as files."""
    for path, suffix in ((png, ".png"), (pdf, ".pdf")):
        if path is not None and path.suffix.lower() != suffix:
            raise RegardError(f"{path}: --{suffix[1:]} writes a file that ends in {suffix}")
    from regard.inspection import figures
    from regard.inspection.collect import collect
    from regard.inspection.look import Look

    looked = subject_of(folder, settings_of(context), trust=trust)
    if html is None and png is None and pdf is None:
        from regard.serve.app import serve_subject

        _show(serve_subject(looked, given), folder, port=port, quiet=quiet)
        return
    seen = Look(collect(looked, given))
    if html is not None:
        seen.save(html)
        print(f"wrote {html}")
    for path in (png, pdf):
        if path is not None:
            figures.save(seen.inspection, path)
            print(f"wrote {path}")


def _show(app: object, folder: Path, *, port: int, quiet: bool) -> None:
    """Serve the page on this machine and open it in the browser."""
    from regard.serve import app as server

    address = f"http://127.0.0.1:{port}/"
    print(f"looking at {folder} on {address} (Ctrl+C ends)")
    if not quiet:
        timer = threading.Timer(1.0, webbrowser.open, [address])
        timer.daemon = True
        timer.start()
    server.serve(app, port=port)
