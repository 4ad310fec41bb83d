"""Targets: the ratio of regard's rate to that of a peer at its fastest measured setting."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

Works = dict[str, dict[str, list[dict[str, Any]]]]  # work -> system -> its rounds


@dataclass(frozen=True)
class Target:
    """A row of the table; a system belongs to `against` if its name starts with it."""

    work: str
    task: str
    against: str
    least: float
    system: str = "regard"


TARGETS = (
    Target("train TINY", "train-tiny", "transformers", 1.75),
    Target("train BASE", "train-base", "transformers", 1.1),
    Target("train bahdanau 512", "train-bahdanau", "PyTorch loop", 1.5),
    Target("decode TINY greedy, exact", "decode-tiny-greedy", "CTranslate2 float32", 1.0),
    Target("decode TINY beam 5, exact", "decode-tiny-beam", "CTranslate2", 1.0),
    Target("decode BASE greedy, int8", "decode-base-greedy", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("decode BASE beam 5, int8", "decode-base-beam", "CTranslate2 int8", 1.3, system="regard int8"),
    Target("single sentence TINY greedy", "single-tiny-greedy", "transformers", 3.0),
    Target("single sentence BASE greedy", "single-base-greedy", "transformers", 2.0),
    Target("corpus of 10,000 lines, greedy, complete job", "corpus-tiny-greedy", "CTranslate2", 1.0),
    Target("corpus of 10,000 lines, beam 5, complete job", "corpus-tiny-beam", "CTranslate2", 1.0),
)
TARGETS += (
    Target("texts: 10,000 lines, greedy, engine auto", "text-corpus-greedy", "CTranslate2", 0.95, system="regard auto"),
    Target("texts: 10,000 lines, beam 5, engine auto", "text-corpus-beam", "patient", 0.95, system="regard auto"),
    Target("texts: batch of 64, greedy, engine auto", "text-batch-greedy", "CTranslate2", 0.95, system="regard auto"),
    Target("texts: one at a time, greedy, engine auto", "text-single-greedy", "CTranslate2", 0.9, system="regard auto"),
)
LIKE = (  # the same number format on both sides
    Target("decode TINY greedy, float32", "decode-tiny-greedy", "CTranslate2 float32", 1.0),
    Target("decode TINY greedy, int8", "decode-tiny-greedy", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("decode TINY beam 5, float32", "decode-tiny-beam", "CTranslate2 float32", 1.0),
    Target("decode TINY beam 5, int8", "decode-tiny-beam", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("decode BASE greedy, float32", "decode-base-greedy", "CTranslate2 float32", 1.0),
    Target("decode BASE beam 5, float32", "decode-base-beam", "CTranslate2 float32", 1.0),
    Target("single sentence BASE greedy, int8", "single-base-greedy", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("corpus, greedy, float32", "corpus-tiny-greedy", "CTranslate2 float32", 1.0),
    Target("corpus, greedy, int8", "corpus-tiny-greedy", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("corpus, beam 5, float32", "corpus-tiny-beam", "CTranslate2 float32", 1.0),
    Target("corpus, beam 5, int8", "corpus-tiny-beam", "CTranslate2 int8", 1.0, system="regard int8"),
)


def rates(rounds: list[dict[str, Any]]) -> list[float]:
    """Return the rates of one system, round by round."""
    return [record["rate"] for record in rounds]


def ratios(system: list[dict[str, Any]], peer: list[dict[str, Any]]) -> list[float]:
    """Return our rate divided by the peer's in each round; both were measured shortly after each other."""
    return [a / b for a, b in zip(rates(system), rates(peer), strict=False)]


def spread(values: list[float]) -> str:
    """Format the median, and the range in brackets."""
    median = f"{statistics.median(values):.2f}"
    return median if len(values) == 1 else f"{median} ({min(values):.2f} to {max(values):.2f})"


def best(systems: dict[str, list[dict[str, Any]]], target: Target) -> str | None:
    """Return the peer's fastest setting."""
    names = [name for name, rounds in systems.items() if rounds and name.startswith(target.against)]
    return max(names, key=lambda name: statistics.median(rates(systems[name])), default=None)


def row(target: Target, works: Works) -> list[str]:
    """Return the cells work, compared with, target, measured, met."""
    systems = works.get(target.task, {})
    peer, system = best(systems, target), systems.get(target.system, [])
    if peer is None or not system:
        return [target.work, target.against, f"≥ {target.least}", "not measured", ""]
    measured = ratios(system, systems[peer])
    reached = "yes" if statistics.median(measured) >= target.least else "**no**"
    return [target.work, peer, f"≥ {target.least}", spread(measured), reached]
