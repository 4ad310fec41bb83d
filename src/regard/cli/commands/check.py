"""`regard check`: check the invariants of decoding and attention on a run."""

from __future__ import annotations

import json

from regard.cli.settings import INSIDE, Folder, Json, Trust
from regard.core.errors import RegardError

PANEL = INSIDE


def run(folder: Folder, *, as_json: Json = False, trust: Trust = False) -> None:
    """Check invariants on a run: cached = uncached, batched = single, fused = plain, beam 1 = greedy."""
    from regard.api.run import load

    results = load(folder, trust=trust).check()
    if as_json:
        print(json.dumps({"run": str(folder), "checks": [result._asdict() for result in results]}, ensure_ascii=False))
    for result in () if as_json else results:
        print(f"{'passed' if result.passed else 'FAILED'}  {result.invariant}: {result.detail}")
    failed = [result.invariant for result in results if not result.passed]
    if failed:
        raise RegardError(f"{folder}: failed: {'; '.join(failed)}; do not trust the predictions of this model")
