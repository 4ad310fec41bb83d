"""Run an experiment: measure its cells into a file from which it can be resumed, then write table, plot and verdict."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch

from regard.core.errors import DataError
from regard.core.files import write_bytes
from regard.core.seed import preserve_rng_state
from regard.experiments._check import Check, check_cells, compare
from regard.experiments._experiment import STOPPED, Cell
from regard.experiments._page import experiment_page
from regard.experiments._plateau import LATE_GAIN
from regard.experiments._plots import render
from regard.experiments._verdict import ClaimResult, judge
from regard.training.stop_signals import Interrupted

FIGURES, CHECK, PAGE, PLOT = "figures.json", "check.json", "page.md", "plot.png"
ProgressCallback = Callable[[int, int, str], None]  # cells done, number of cells, name of the next cell


class StoredExperiment(NamedTuple):
    """The measurements of an experiment so far."""

    effort: float
    figures: dict[str, dict[str, float]]  # by cell name
    seconds: dict[str, float]  # processor time of each cell, which hardly depends on other processes
    machine: str = ""


def run_experiment(
    experiment: ModuleType, name: str, out: Path, *, effort: float, on_progress: ProgressCallback
) -> ClaimResult:
    """Measure the missing cells, and write figures, plot and page to the folder `out`."""
    _set_aside_without_curves(experiment, out / FIGURES)
    stored = _measure_into(out / FIGURES, experiment.cells(effort), effort, on_progress)
    write_bytes(out / PLOT, render(lambda axes: experiment.draw(stored.figures, axes)))
    _write_page(experiment, name, out)
    return judge(experiment, stored.figures)


def run_check(experiment: ModuleType, name: str, out: Path, *, effort: float, on_progress: ProgressCallback) -> Check:
    """Repeat a measured experiment with twice the budget and other seeds, and add the result to its page."""
    _measure_into(out / CHECK, check_cells(experiment, effort), effort, on_progress)
    _write_page(experiment, name, out)
    check = read_check(experiment, out)
    assert check is not None  # both files are complete
    return check


def _set_aside_without_curves(experiment: ModuleType, path: Path) -> None:
    """Move aside the figures of an experiment that trains if none has a validation curve: they cannot be judged."""
    stored = read_stored(path)
    trains = hasattr(experiment, "CURVE")
    if (
        stored is not None
        and stored.figures
        and trains
        and not any(LATE_GAIN in row for row in stored.figures.values())
    ):
        os.replace(path, path.with_stem(f"{path.stem}-without-curves"))


def _write_page(experiment: ModuleType, name: str, out: Path) -> None:
    lines = page(experiment, name, out, plot=PLOT)
    assert lines is not None  # the figures are complete
    write_bytes(out / PAGE, ("\n".join(lines) + "\n").encode())


def page(experiment: ModuleType, name: str, out: Path, *, plot: str) -> list[str] | None:
    """Return the page of the experiment in the folder `out`, None if it is incomplete; `plot` is the path of the image.

    The check of its verdict is included if it is complete.
    """
    stored = read_complete(experiment, out)
    if stored is None:
        return None
    minutes = sum(stored.seconds.values()) / 60
    source = f"effort {stored.effort:g}, in {minutes:.1f} minutes ({stored.machine})"
    check = read_check(experiment, out)
    return experiment_page(experiment, name, stored.figures, source=source, check=check, plot=plot)


def _measure_into(path: Path, cells: Sequence[Cell], effort: float, on_progress: ProgressCallback) -> StoredExperiment:
    """Measure the cells that a file does not have, and return all of them in order."""
    stored = _load_or_start(path, effort)
    try:
        _measure(cells, stored, path, on_progress)
    except KeyboardInterrupt:
        raise Interrupted(STOPPED, "SIGINT") from None
    on_progress(len(cells), len(cells), "")
    return stored._replace(figures={cell.name: stored.figures[cell.name] for cell in cells})


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
        started_at = time.process_time()
        with preserve_rng_state():
            torch.manual_seed(index)
            stored.figures[cell.name] = cell.measure()
        stored.seconds[cell.name] = round(time.process_time() - started_at, 2)
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
    threads = torch.get_num_threads()
    machine = (
        f"processor time of {threads} thread{'s' if threads > 1 else ''} on {platform.machine()},"
        f" {os.cpu_count()} cores, PyTorch {torch.__version__}"
    )
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


def read_complete(experiment: ModuleType, out: Path) -> StoredExperiment | None:
    """Return the stored experiment if all of its cells are measured."""
    stored = read_stored(out / FIGURES)
    return None if stored is None else _only_cells(stored, experiment.cells(stored.effort))


def read_check(experiment: ModuleType, out: Path) -> Check | None:
    """Return the check of a complete experiment if it is complete, too, and was made for the same effort."""
    stored, repeated = read_complete(experiment, out), read_stored(out / CHECK)
    if stored is None or repeated is None or repeated.effort != stored.effort:
        return None
    repeated = _only_cells(repeated, check_cells(experiment, stored.effort))
    return None if repeated is None else compare(experiment, stored.figures, repeated.figures)


def _only_cells(stored: StoredExperiment, cells: Sequence[Cell]) -> StoredExperiment | None:
    """Return the measurements of these cells, None if one is missing."""
    names = [cell.name for cell in cells]
    if not set(names) <= set(stored.figures):
        return None
    return stored._replace(figures={name: stored.figures[name] for name in names})
