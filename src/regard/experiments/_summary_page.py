"""Summary page of all claims, generated from stored experiments; claims without measurements are listed as such."""

from __future__ import annotations

import os
from pathlib import Path

from regard.core.registry import find, registered_names
from regard.experiments._runner import FIGURES, PLOT, StoredExperiment, page, read_stored

PACKAGE = "regard.experiments"
TITLE = "# Every claim measured"
NOT_MEASURED = "not measured yet"


def display_name(name: str) -> str:
    """Return the name of an experiment on the command line: soft-hard."""
    return name.replace("_", "-")


def experiment_names() -> list[str]:
    """Return the display names of all experiments."""
    return [display_name(name) for name in registered_names(PACKAGE)]


def summary_page(out: Path, page_folder: Path) -> str:
    """Return the page as Markdown for the experiments stored in `out`; links are relative to `page_folder`."""
    rows, sections = ["| claim | | here |", "|---|---|---|"], list[str]()
    for name in experiment_names():
        experiment, stored = find(PACKAGE, name.replace("-", "_")), _read_complete(name, out)
        label = NOT_MEASURED if stored is None else experiment.verdict(stored.figures).label
        link = f"[`{name}`](#{name})" if stored is not None else f"`{name}`"
        rows.append(f"| {link} | {experiment.CLAIM} | {label} |")
        if stored is not None:
            sections += [*page(experiment, name, stored, plot=_relative_link(page_folder, out / name / PLOT)), ""]
    return "\n".join([TITLE, "", *_introduction(rows), "", *sections]).rstrip() + "\n"


def _read_complete(name: str, out: Path) -> StoredExperiment | None:
    """Return the stored experiment if all of its cells are measured."""
    stored = read_stored(out / name / FIGURES)
    if stored is None:
        return None
    cells = [cell.name for cell in find(PACKAGE, name.replace("-", "_")).cells(stored.effort)]
    if not set(cells) <= set(stored.figures):
        return None
    return stored._replace(figures={cell: stored.figures[cell] for cell in cells})


def _introduction(rows: list[str]) -> list[str]:
    return [
        "Claims of lecture notes and papers about attention, each with a command that measures it on your machine:",
        "`regard experiment NAME` for one of them, `regard experiment all --quick` for all. The models are small and",
        "trained for seconds, so a claim that does not hold here may hold for large models. Verdicts are computed",
        "from the numbers below them by a rule in the code. Not decided: the models have learned too little, or seeds",
        "differ more than models. This page is generated from stored figures by",
        "`regard experiment all --quick --out docs/claims --page docs/claims.md --force`, which resumes where it was",
        "stopped.",
        "",
        *rows,
    ]


def _relative_link(folder: Path, target: Path) -> str:
    """Return a path as a link relative to a folder."""
    return Path(os.path.relpath(target, folder)).as_posix()
