"""`regard look`: show the attention of a run on an input, in the browser, as a standalone page, or as a figure."""

from __future__ import annotations

import socket
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.output import print_remarks
from regard.cli.output_files import check_targets
from regard.cli.predict_command import PredictCommand, load_target
from regard.cli.settings import INSIDE, Folder, Force, Trust, settings_of
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.inspection.collect import InspectionTarget

HOST = "127.0.0.1"
PANEL = INSIDE
Command = PredictCommand


def run(
    context: typer.Context,
    folder: Folder,
    raw_input: Annotated[
        str, typer.Argument(metavar="INPUT", help="A text or a file; KEY=VALUE sets options of the run's verb.")
    ],
    html: Annotated[Path | None, typer.Option(help="Write one page that works offline.")] = None,
    *,
    png: Annotated[Path | None, typer.Option(help="Draw the most informative map.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Draw it and all heads, for print.")] = None,
    port: Annotated[int, typer.Option(help="Port of the page.")] = 8765,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the browser.")] = False,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Show every attention map of an input in the browser, or write files."""
    for path, suffixes in ((html, (".html", ".htm")), (png, (".png",)), (pdf, (".pdf",))):
        if path is not None and path.suffix.lower() not in suffixes:
            raise RegardError(f"{path}: --{suffixes[0][1:]} needs a file name that ends in {suffixes[0]}")
    check_targets((html, png, pdf), force=force)
    from regard.inspection import figures
    from regard.inspection.collect import collect
    from regard.inspection.report import InspectionReport

    if html is None and png is None and pdf is None:
        from regard.serve.server import listen

        with listen(HOST, port) as bound_socket:
            target = load_target(folder, settings_of(context), trust=trust)
            _serve_page(target, raw_input, bound_socket, folder=folder, open_browser=not no_browser)
        return
    target = load_target(folder, settings_of(context), trust=trust)
    report = InspectionReport(collect(target, raw_input))
    print_remarks(report.inspection.remarks)
    if html is not None:
        report.save(html)
        print(f"wrote {html}")
    for path in (png, pdf):
        if path is not None:
            figures.save(report.inspection, path)
            print(f"wrote {path}")


def _serve_page(
    target: InspectionTarget, raw_input: str, bound_socket: socket.socket, *, folder: Path, open_browser: bool
) -> None:
    """Serve the page on this machine and open it in the browser."""
    from regard.serve import app as pages
    from regard.serve import server
    from regard.serve.server import address

    app, url = pages.explorer_app(target, raw_input), address(bound_socket, HOST)
    print(f"showing {folder} on {url} (press Ctrl+C to stop)", flush=True)
    if open_browser:
        timer = threading.Timer(1.0, webbrowser.open, [url])
        timer.daemon = True
        timer.start()
    server.serve(app, bound_socket)
