"""The kinds of cases of `bench/fuzz.py`, one module each: `prepare` creates valid samples once, `make` corrupts one of
them and returns its use."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

CANARY = "canary_hostile"  # an importable module that must not be imported


class Case(NamedTuple):
    """A corrupted input, and its use."""

    what: str  # short description
    use: Callable[[], Any]


class Kind(Protocol):
    """One kind of input."""

    def prepare(self, work: Path) -> None: ...  # in the process that all others are forked from

    def make(self, rng: random.Random, folder: Path) -> Case: ...  # the folder is empty and the case's own
