"""Page of an experiment as Markdown: claim, verdict with its reason, rule and effect sizes, plot and table."""

from __future__ import annotations

from types import ModuleType

from regard.experiments._check import Check
from regard.experiments._references import link_references
from regard.experiments._verdict import ClaimResult, Figures, judge


def experiment_page(
    experiment: ModuleType, name: str, figures: Figures, *, source: str, check: Check | None, plot: str
) -> list[str]:
    """Return the lines of the page; `source` says how the figures were measured, `plot` is the path of the image."""
    verdict = judge(experiment, figures)
    return [
        *(f"## {name}", "", f"{experiment.CLAIM} ({link_references(experiment.REFERENCE)})", ""),
        *verdict_lines(verdict),
        *(["", f"**Check.** {check.text}"] if check is not None else []),
        *("", verdict.text, "", f"![{name}]({plot})", ""),
        *table(figures),
        *("", f"Measured by `regard experiment {name}`, {source}."),
    ]


def missing_page(experiment: ModuleType, name: str) -> list[str]:
    """Return the lines of an experiment without measurements, so that links to it lead somewhere."""
    return [
        *(f"## {name}", "", f"{experiment.CLAIM} ({link_references(experiment.REFERENCE)})", ""),
        f"**Not measured yet.** `regard experiment {name}` measures it.",
    ]


def verdict_lines(verdict: ClaimResult) -> list[str]:
    """Return the verdict, why it is what it is, the rule that decides, and the effect sizes with their intervals."""
    lines = [f"**{verdict.label.capitalize()} here.** {verdict.reason}".rstrip()]
    if verdict.rule:
        lines += ["", f"Rule: {verdict.rule}"]
    if verdict.effects:
        lines += ["", f"Effect: {'; '.join(map(str, verdict.effects))}."]
    return lines


def table(figures: Figures) -> list[str]:
    """Return the lines of a Markdown table: one row per cell, one column per figure."""
    columns = list(dict.fromkeys(column for cell_figures in figures.values() for column in cell_figures))
    rows = [[name, *(_format(values.get(column)) for column in columns)] for name, values in figures.items()]
    return ["| " + " | ".join(row) + " |" for row in [["", *columns], ["---"] * (1 + len(columns)), *rows]]


def _format(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
