"""Run an experiment: measure its cells into a file from which it can be resumed, then write table, plot and verdict."""

from __future__ import annotations

import io
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from regard.core.errors import DataError
from regard.core.extras import require
from regard.core.files import write_bytes
from regard.core.seed import preserve_rng_state
from regard.experiments._experiment import STOPPED, Cell, ClaimResult, Figures
from regard.training.signals import Interrupted

FIGURES, PAGE, PLOT = "figures.json", "page.md", "plot.png"
ProgressCallback = Callable[[int, int, str], None]  # cells done, number of cells, name of the next cell


class StoredExperiment(NamedTuple):
    """The measurements of an experiment so far."""

    effort: float
    figures: dict[str, dict[str, float]]  # by cell name
    seconds: dict[str, float]  # duration of each cell
    machine: str = ""


def run_experiment(
    experiment: ModuleType, name: str, out: Path, *, effort: float, on_progress: ProgressCallback
) -> ClaimResult:
    """Measure the missing cells, and write figures, plot and page to the folder `out`."""
    path, cells = out / FIGURES, experiment.cells(effort)
    stored = _load_or_start(path, effort)
    try:
        _measure(cells, stored, path, on_progress)
    except KeyboardInterrupt:
        raise Interrupted(STOPPED, "SIGINT") from None
    on_progress(len(cells), len(cells), "")
    complete = stored._replace(figures={cell.name: stored.figures[cell.name] for cell in cells})
    write_bytes(out / PLOT, _plot(experiment, complete.figures))
    write_bytes(out / PAGE, ("\n".join(page(experiment, name, complete, plot=PLOT)) + "\n").encode())
    verdict: ClaimResult = experiment.verdict(complete.figures)
    return verdict


def _measure(cells: Sequence[Cell], stored: StoredExperiment, path: Path, on_progress: ProgressCallback) -> None:
    """Measure the cells that are not stored, and store each immediately; the file is first written without cells."""

    def save() -> None:
        write_bytes(path, json.dumps(stored._asdict(), indent=1).encode())

    if not stored.figures:
        save()
    for index, cell in enumerate(cells):
        on_progress(index, len(cells), cell.name)
        if cell.name in stored.figures:
            continue
        started_at = time.monotonic()
        with preserve_rng_state():
            torch.manual_seed(index)
            stored.figures[cell.name] = cell.measure()
        stored.seconds[cell.name] = round(time.monotonic() - started_at, 2)
        save()


def _load_or_start(path: Path, effort: float) -> StoredExperiment:
    """Return the stored measurements of the same effort; those of another effort are moved to a separate file."""

    def path_of(stored_effort: float) -> Path:
        return path.with_stem(f"{path.stem}-{stored_effort:g}")

    stored = read_stored(path)
    if stored is not None and stored.effort != effort:
        os.replace(path, path_of(stored.effort))
        stored = None
    if stored is None and path_of(effort).exists():
        os.replace(path_of(effort), path)
        stored = read_stored(path)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, PyTorch {torch.__version__}"
    return stored or StoredExperiment(effort, {}, {}, machine)


def read_stored(path: Path) -> StoredExperiment | None:
    """Read the file of an experiment; None if there is none."""
    if not path.exists():
        return None
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return StoredExperiment(table["effort"], dict(table["figures"]), dict(table["seconds"]), str(table["machine"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path}: not the file of an experiment; delete it, or choose another --out") from None


def page(experiment: ModuleType, name: str, stored: StoredExperiment, *, plot: str) -> list[str]:
    """Return claim, verdict, plot and table as lines of Markdown; `plot` is the path of the image."""
    verdict: ClaimResult = experiment.verdict(stored.figures)
    return [
        f"## {name}",
        "",
        f"{experiment.CLAIM} ({experiment.REFERENCE})",
        "",
        f"**{verdict.label.capitalize()} here.** {verdict.text}",
        "",
        f"![{name}]({plot})",
        "",
        *table(stored.figures),
        "",
        f"Measured by `regard experiment {name}`, effort {stored.effort:g}, in"
        f" {sum(stored.seconds.values()) / 60:.1f} minutes ({stored.machine}).",
    ]


def table(figures: Figures) -> list[str]:
    """Return the lines of a Markdown table: one row per cell, one column per figure."""
    columns = list(dict.fromkeys(column for cell_figures in figures.values() for column in cell_figures))
    rows = [[name, *(_format(values.get(column)) for column in columns)] for name, values in figures.items()]
    return ["| " + " | ".join(row) + " |" for row in [["", *columns], ["---"] * (1 + len(columns)), *rows]]


def _format(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _plot(experiment: ModuleType, figures: Figures) -> bytes:
    figure: Any = require("matplotlib.figure", extra="plots").Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    experiment.draw(figures, axes)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
