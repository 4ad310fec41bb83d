"""`regard check`: the laws that a model must keep, checked on the user's own."""

from __future__ import annotations

from regard.cli.settings import INSIDE, Folder, Trust
from regard.core.errors import RegardError

PANEL = INSIDE


def run(folder: Folder, *, trust: Trust = False) -> None:
    """Check the laws on a run: cached = uncached, batched = single, fast = plain, beam 1 = greedy."""
    from regard.api.run import load

    verdicts = load(folder, trust=trust).check()
    for verdict in verdicts:
        print(f"{'kept  ' if verdict.passed else 'BROKEN'}  {verdict.invariant}: {verdict.detail}")
    broken = [verdict.invariant for verdict in verdicts if not verdict.passed]
    if broken:
        raise RegardError(f"{folder}: broken: {'; '.join(broken)}; do not trust what this model answers")
