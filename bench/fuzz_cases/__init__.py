"""What `bench/fuzz.py` tries, one file a kind: `prepare` makes whole samples once, `make` spoils one of them and
says what is done with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

CANARY = "canary_hostile"  # a module that is there to be imported, and must not be


class Case(NamedTuple):
    """A spoilt input, and what a user would do with it."""

    what: str  # in a few words, to be found again
    use: Callable[[], Any]


class Kind(Protocol):
    """One kind of input."""

    def prepare(self, work: Path) -> None: ...  # in the process that all others are forked from

    def make(self, rng: random.Random, folder: Path) -> Case: ...  # the folder is empty and the case's own
