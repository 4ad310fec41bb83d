"""An experiment is conducted: cell by cell into a file that it can go on from, then a table, a plot and a verdict."""

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
ProgressCallback = Callable[[int, int, str], None]  # cells that are done, of how many, and which comes next


class StoredExperiment(NamedTuple):
    """What an experiment has measured so far."""

    effort: float
    figures: dict[str, dict[str, float]]  # by the name of a cell
    seconds: dict[str, float]  # that each cell took
    machine: str = ""


def run_experiment(
    experiment: ModuleType, name: str, out: Path, *, effort: float, on_progress: ProgressCallback
) -> ClaimResult:
    """Measure what is not measured yet, and write figures, plot and page into the folder `out`."""
    place, cells = out / FIGURES, experiment.cells(effort)
    stored = _begun(place, effort)
    try:
        _measure(cells, stored, place, on_progress)
    except KeyboardInterrupt:
        raise Interrupted(STOPPED, "SIGINT") from None
    on_progress(len(cells), len(cells), "")
    known = stored._replace(figures={cell.name: stored.figures[cell.name] for cell in cells})
    write_bytes(out / PLOT, _plot(experiment, known.figures))
    write_bytes(out / PAGE, ("\n".join(page(experiment, name, known, plot=PLOT)) + "\n").encode())
    verdict: ClaimResult = experiment.verdict(known.figures)
    return verdict


def _measure(cells: Sequence[Cell], stored: StoredExperiment, place: Path, tell: ProgressCallback) -> None:
    """The cells that are not stored yet, each written as soon as it is known; that there is room is found out first."""

    def keep() -> None:
        write_bytes(place, json.dumps(stored._asdict(), indent=1).encode())

    if not stored.figures:
        keep()
    for number, cell in enumerate(cells):
        tell(number, len(cells), cell.name)
        if cell.name in stored.figures:
            continue
        begun = time.monotonic()
        with preserve_rng_state():
            torch.manual_seed(number)
            stored.figures[cell.name] = cell.measure()
        stored.seconds[cell.name] = round(time.monotonic() - begun, 2)
        keep()


def _begun(place: Path, effort: float) -> StoredExperiment:
    """What was measured before with the same effort; nothing else is mixed in, and what another has measured is laid
    aside, to be taken up by that one."""

    def aside(other: float) -> Path:
        return place.with_stem(f"{place.stem}-{other:g}")

    stored = read_stored(place)
    if stored is not None and stored.effort != effort:
        os.replace(place, aside(stored.effort))
        stored = None
    if stored is None and aside(effort).exists():
        os.replace(aside(effort), place)
        stored = read_stored(place)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, PyTorch {torch.__version__}"
    return stored or StoredExperiment(effort, {}, {}, machine)


def read_stored(path: Path) -> StoredExperiment | None:
    """The file of an experiment; None where there is none."""
    if not path.exists():
        return None
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return StoredExperiment(table["effort"], dict(table["figures"]), dict(table["seconds"]), str(table["machine"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path}: it is not the file of an experiment; delete it, or choose another --out") from None


def page(experiment: ModuleType, name: str, stored: StoredExperiment, *, plot: str) -> list[str]:
    """Claim, verdict, plot and table as lines of Markdown; `plot` is where the picture lies."""
    verdict: ClaimResult = experiment.verdict(stored.figures)
    return [
        f"## {name}",
        "",
        f"{experiment.CLAIM} ({experiment.WHERE})",
        "",
        f"**{verdict.label.capitalize()} here.** {verdict.text}",
        "",
        f"![{name}]({plot})",
        "",
        *table(stored.figures),
        "",
        f"Made by `regard experiment {name}`, effort {stored.effort:g}, in"
        f" {sum(stored.seconds.values()) / 60:.1f} minutes ({stored.machine}).",
    ]


def table(figures: Figures) -> list[str]:
    """Lines of a table: a row a cell, a column a figure."""
    columns = list(dict.fromkeys(column for numbers in figures.values() for column in numbers))
    rows = [[name, *(_short(numbers.get(column)) for column in columns)] for name, numbers in figures.items()]
    return ["| " + " | ".join(row) + " |" for row in [["", *columns], ["---"] * (1 + len(columns)), *rows]]


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _plot(experiment: ModuleType, figures: Figures) -> bytes:
    figure: Any = require("matplotlib.figure", extra="plots").Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    experiment.draw(figures, axes)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
