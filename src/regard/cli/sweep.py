"""Several seeds: their common settings, and mean and standard deviation of every metric, written to sweep.json."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

SUMMARY_FILE = "sweep.json"
SETTINGS_FILE = "sweep-settings.json"
MAX_LISTED = 3  # settings that a message names


def check_settings(folder: Path, recipe: Recipe) -> None:
    """Store the settings of a sweep; refuse to continue one with other settings, whose runs cannot be averaged."""
    from regard.core.checksummed_json import read_json, write_json
    from regard.training import data_paths
    from regard.training.recipe import setting_texts

    plan = recipe.plan
    texts = setting_texts(data_paths.with_absolute_paths(recipe).to_dict())
    settings = dict(text.split("=", 1) for text in texts if not text.startswith("seed="))
    planned = [] if plan is None else [str(plan.follows_data), *sorted(plan.explicit - {"seed"})]
    current = {"settings": settings, "plan": planned}
    path = folder / SETTINGS_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, current)
        return
    stored = read_json(path)
    if stored == current:
        return
    old = stored["settings"]
    names = sorted(name for name in {*old, *settings} if old.get(name) != settings.get(name))
    changes = [f"{name}={old.get(name, 'none')} (now {settings.get(name, 'none')})" for name in names]
    more = f" and {len(changes) - MAX_LISTED} more" if len(changes) > MAX_LISTED else ""
    differences = ", ".join(changes[:MAX_LISTED]) + more or "other settings follow the data"
    raise ConfigError(
        f"{folder}: its runs were trained with other settings: {differences}; repeat the settings, or choose another "
        "folder"
    )


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
