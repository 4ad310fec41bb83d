"""The outcome of a case."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Number of trials, one line for each broken promise, and the promise in a few words."""

    trials: int = 0
    broken: list[str] = field(default_factory=list)
    note: str = ""

    def check(self, is_kept: bool, line: str) -> None:
        """Count a trial, which is broken unless `is_kept`."""
        self.trials += 1
        if not is_kept:
            self.broken.append(line)
