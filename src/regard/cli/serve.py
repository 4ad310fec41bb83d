"""`regard serve`: the explorer of a run, for this machine unless another host is named."""

from __future__ import annotations

from pathlib import Path

from regard.inspection.look import subject
from regard.serve.app import create, serve
from regard.training import run as runs

FIRST = "The teacher reads a book."  # what is shown before the first question


def run(folder: Path, *, text: str | None, host: str, port: int) -> None:
    """Serve until interrupted."""
    loaded = runs.load(folder)
    print(f"serving {folder} on http://{host}:{port}/ (Ctrl+C ends)")
    serve(create(subject(loaded), text or FIRST), host=host, port=port)
