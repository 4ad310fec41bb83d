"""Summary page of all claims, generated from stored experiments; claims without measurements are listed as such."""

from __future__ import annotations

import os
from pathlib import Path

from regard.core.registry import find, registered_names
from regard.experiments._page import missing_page
from regard.experiments._runner import PLOT, page, read_check, read_complete
from regard.experiments._verdict import judge

PACKAGE = "regard.experiments"
TITLE = "# Every claim measured"
NOT_MEASURED, NOT_CHECKED = "not measured yet", "–"


def display_name(name: str) -> str:
    """Return the name of an experiment on the command line: soft-hard."""
    return name.replace("_", "-")


def experiment_names() -> list[str]:
    """Return the display names of all experiments."""
    return [display_name(name) for name in registered_names(PACKAGE)]


def summary_page(out: Path, page_folder: Path) -> str:
    """Return the page as Markdown for the experiments stored in `out`; links are relative to `page_folder`."""
    rows, sections = ["| claim | | here | check |", "|---|---|---|---|"], list[str]()
    for name in experiment_names():
        experiment, folder = find(PACKAGE, name.replace("-", "_")), out / name
        stored, check = read_complete(experiment, folder), read_check(experiment, folder)
        label = NOT_MEASURED if stored is None else judge(experiment, stored.figures).label
        rows.append(f"| [`{name}`](#{name}) | {experiment.CLAIM} | {label} | {check.label if check else NOT_CHECKED} |")
        lines = page(experiment, name, folder, plot=_relative_link(page_folder, folder / PLOT))
        sections += [*(lines or missing_page(experiment, name)), ""]
    return "\n".join([TITLE, "", *_introduction(rows), "", *sections]).rstrip() + "\n"


def _introduction(rows: list[str]) -> list[str]:
    return [
        "Claims of lecture notes and papers about attention, each with a command that measures it on your machine:",
        "`regard experiment NAME` for one of them, `regard experiment all --quick` for all. The models are small and",
        "trained for seconds to minutes, so a claim that does not hold here may hold for large models. Verdicts are",
        "computed from the numbers below them by the rule that is printed with them. Not decided: a model was still",
        "improving when its training ended, or seeds differ more than models. The interval of an effect spans all",
        "pairs of seeds, or is the 95 % interval of a fitted exponent. `regard experiment NAME --check` repeats it",
        "with twice the budget and other seeds; the last column says if the verdict stays. This page is generated",
        "from stored figures by `regard experiment all --quick --out docs/claims --page docs/claims.md --force`, which",
        "resumes where it was stopped.",
        "",
        *rows,
    ]


def _relative_link(folder: Path, target: Path) -> str:
    """Return a path as a link relative to a folder."""
    return Path(os.path.relpath(target, folder)).as_posix()
