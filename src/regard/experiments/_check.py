"""Check of a verdict: the experiment is repeated with twice the budget and other seeds."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from regard.experiments._experiment import Cell
from regard.experiments._verdict import ClaimResult, Figures, judge

BUDGET_FACTOR = 2
ADDED_TO_SEEDS = 100


class Check(NamedTuple):
    """Verdict of an experiment, and that of its repetition."""

    verdict: ClaimResult
    repeated: ClaimResult

    @property
    def stays(self) -> bool:
        """True if the repetition has the same verdict."""
        return self.verdict.holds == self.repeated.holds

    @property
    def label(self) -> str:
        """The check in words."""
        return "stays" if self.stays else f"changes to {self.repeated.label}"

    @property
    def text(self) -> str:
        """The check in a few sentences."""
        effects = "".join(f" {effect}." for effect in self.repeated.effects)
        return (
            f"With {BUDGET_FACTOR} times the budget and other seeds the verdict {self.label}."
            f" {self.repeated.reason}{effects}"
        )


def check_cells(experiment: ModuleType, effort: float) -> list[Cell]:
    """Return the cells of the repetition of an experiment that was measured with `effort`."""
    cells: list[Cell] = experiment.cells(BUDGET_FACTOR * effort)
    return [cell.repeat(ADDED_TO_SEEDS) if cell.repeat else cell for cell in cells]


def compare(experiment: ModuleType, figures: Figures, repeated: Figures) -> Check:
    """Compare the verdicts of an experiment and of its repetition."""
    return Check(judge(experiment, figures), judge(experiment, repeated))
