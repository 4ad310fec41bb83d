"""The result of several seeds: mean and standard deviation of every metric, printed and written to sweep.json."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SUMMARY_FILE = "sweep.json"


def summarize(reports: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Reports of evaluations -> mean, sample standard deviation and values of every metric that all of them have."""
    names = [name for name in reports[0]["scores"] if all(name in report["scores"] for report in reports)]
    columns = {name: [float(report["scores"][name]) for report in reports] for name in names}
    return {
        name: {"mean": statistics.fmean(values), "deviation": statistics.stdev(values), "values": values}
        for name, values in columns.items()
    }


def write_summary(folder: Path, reports: Sequence[Mapping[str, Any]]) -> str:
    """Write sweep.json into the folder of the runs; return the lines to print."""
    from regard.core.checksummed_json import write_json

    summary, split = summarize(reports), reports[0]["split"]
    examples = reports[0].get("examples")
    write_json(folder / SUMMARY_FILE, {"split": split, "examples": examples, "metrics": summary})
    size = "" if examples is None else f", {examples:,} examples"
    lines = [f"{folder}: {len(reports)} seeds on {split}{size}, mean ± standard deviation"]
    for name, row in summary.items():
        values = ", ".join(f"{value:.4g}" for value in row["values"])
        lines.append(f"  {name}: {row['mean']:.4g} ± {row['deviation']:.2g}  ({values})")
    return "\n".join(lines)
