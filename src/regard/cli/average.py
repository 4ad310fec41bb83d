"""`regard average`: the mean of a run's last weights, as a run of its own."""

from __future__ import annotations

from pathlib import Path

from regard.training.average import average


def run(folder: Path, *, last: int, out: Path | None) -> None:
    """Average and say where the result is."""
    target = out if out is not None else folder.with_name(f"{folder.resolve().name}-average")
    average(folder, last=last, out=target)
    print(f"{target}: the mean of the last {last} evaluations; score it with: regard evaluate {target}")
