"""Lines that a task prints about its data when training starts: the size of each split, and the first example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_EXAMPLE_CHARACTERS = 100  # longer examples are truncated


def format_counts(unit: str, splits: Mapping[str, int], *more: str) -> str:
    """'pairs: train 30,000, valid 500; a vocabulary of 1,500 tokens'."""
    return "; ".join([f"{unit}: " + ", ".join(f"{name} {count:,}" for name, count in splits.items()), *more])


def split_sizes(splits: Mapping[str, Iterable[object]]) -> dict[str, int]:
    """Return the number of examples of each split, the training split first."""
    names = sorted(splits, key=lambda name: name != "train")
    return {name: sum(1 for _ in splits[name]) for name in names}


def format_vocabulary(size: int, unit: str = "tokens") -> str:
    """'a vocabulary of 1,500 tokens'."""
    return f"a vocabulary of {size:,} {unit}"


def format_first_example(unit: str, text: str, target: str = "") -> str:
    """Return the first example on one line; a long text is truncated so that its target stays visible."""
    line = " ".join(text.split())
    line = line if len(line) <= MAX_EXAMPLE_CHARACTERS else f"{line[: MAX_EXAMPLE_CHARACTERS - 2]} …"
    return f"first {unit}: {line}" + (f" -> {target}" if target else "")
