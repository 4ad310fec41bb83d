"""`regard look`: a sentence through a run, as a page in the browser, a file that needs no network, or a figure."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path

from regard.core.errors import RegardError
from regard.inspection import figures
from regard.inspection.look import Look, look, subject
from regard.serve.app import create, serve
from regard.training import run as runs


def run(
    folder: Path, text: str, *, html: Path | None, png: Path | None, pdf: Path | None, port: int, quiet: bool
) -> None:
    """Write what was asked for; serve a page where nothing was."""
    loaded = runs.load(folder)
    if html is None and png is None and pdf is None:
        show(loaded, text, port=port, quiet=quiet)
        return
    seen = look(loaded, text)
    write(seen, html=html, png=png, pdf=pdf)


def write(seen: Look, *, html: Path | None, png: Path | None, pdf: Path | None) -> None:
    """The files that were asked for."""
    for path, suffix in ((png, ".png"), (pdf, ".pdf")):
        if path is not None and path.suffix.lower() != suffix:
            raise RegardError(f"{path}: --{suffix[1:]} writes a file that ends in {suffix}")
    if html is not None:
        seen.save(html)
        print(f"wrote {html}")
    for path in (png, pdf):
        if path is not None:
            figures.save(seen.found, path)
            print(f"wrote {path}")


def show(loaded: runs.Run, text: str, *, port: int, quiet: bool) -> None:
    """Serve the page on this machine and open it in the browser."""
    app = create(subject(loaded), text)
    address = f"http://127.0.0.1:{port}/"
    print(f"looking at {loaded.folder} on {address} (Ctrl+C ends)")
    if not quiet:
        timer = threading.Timer(1.0, webbrowser.open, [address])
        timer.daemon = True
        timer.start()
    serve(app, port=port)
