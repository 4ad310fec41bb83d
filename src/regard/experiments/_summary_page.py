"""All claims on one page, made from what experiments have stored; what was not measured yet is said."""

from __future__ import annotations

import os
from pathlib import Path

from regard.core.registry import find, registered_names
from regard.experiments._runner import FIGURES, PLOT, StoredExperiment, page, read_stored

PACKAGE = "regard.experiments"
TITLE = "# Every claim measured"
NOT_MEASURED = "not measured yet"


def display_name(name: str) -> str:
    """The name of an experiment as people write it: soft-hard."""
    return name.replace("_", "-")


def experiment_names() -> list[str]:
    """All experiments, as people write them."""
    return [display_name(name) for name in registered_names(PACKAGE)]


def summary_page(out: Path, page_folder: Path) -> str:
    """The folder in which experiments were stored -> the page as Markdown, to be written into the folder `beside`."""
    rows, parts = ["| claim | | here |", "|---|---|---|"], list[str]()
    for name in experiment_names():
        experiment, stored = find(PACKAGE, name.replace("-", "_")), _whole(name, out)
        verdict = None if stored is None else experiment.verdict(stored.figures)
        said = NOT_MEASURED if verdict is None else verdict.said
        link = f"[`{name}`](#{name})" if stored is not None else f"`{name}`"
        rows.append(f"| {link} | {experiment.CLAIM} | {said} |")
        if stored is not None:
            parts += [*page(experiment, name, stored, plot=_from(page_folder, out / name / PLOT)), ""]
    return "\n".join([TITLE, "", *_about(rows), "", *parts]).rstrip() + "\n"


def _whole(name: str, out: Path) -> StoredExperiment | None:
    """What is stored of an experiment, if every cell of it is there."""
    stored = read_stored(out / name / FIGURES)
    if stored is None:
        return None
    cells = [cell.name for cell in find(PACKAGE, name.replace("-", "_")).cells(stored.effort)]
    if not set(cells) <= set(stored.figures):
        return None
    return stored._replace(figures={cell: stored.figures[cell] for cell in cells})


def _about(rows: list[str]) -> list[str]:
    return [
        "What lecture notes and papers say about attention, each as a command that measures it on your machine:",
        "`regard experiment NAME`, and all of them: `regard experiment all --quick`. The models are small and trained",
        "for seconds, so a claim that does not hold here may hold for large ones; verdicts are computed from the",
        "numbers below them by a rule that stands in the code. Not decided: models have learned too little to judge",
        "by them, or seeds differ more than models do. This page is made from stored figures by",
        "`regard experiment all --quick --out docs/claims --page docs/claims.md`, which goes on where it was stopped.",
        "",
        *rows,
    ]


def _from(folder: Path, target: Path) -> str:
    """A path as a link from a folder."""
    return Path(os.path.relpath(target, folder)).as_posix()
