"""A strategy with a mistake that only a search finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.decoding.search import StrategySpec


@dataclass(frozen=True)
class Config:
    """No settings."""


def build(config: Config) -> StrategySpec:
    """Return a strategy whose choice fails."""

    def choose(log_probs: Any, search: Any) -> Any:
        return log_probs.no_such_method()

    return StrategySpec(choose)
