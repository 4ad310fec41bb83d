"""`regard check`: the laws of decoding, checked on the user's own model."""

from __future__ import annotations

from pathlib import Path

from regard.api.run import load
from regard.core.errors import RegardError


def run(folder: Path) -> None:
    """Print one line a law; a broken one is an error."""
    found = load(folder)
    verdicts = found.check()
    for verdict in verdicts:
        print(f"{'kept  ' if verdict.kept else 'BROKEN'}  {verdict.law}: {verdict.detail}")
    broken = [verdict.law for verdict in verdicts if not verdict.kept]
    if broken:
        raise RegardError(f"{folder}: broken: {'; '.join(broken)}; do not trust what this model decodes")
