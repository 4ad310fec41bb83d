"""What tasks say of their data when training begins, all in one form: how much of it in each split, the first of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_EXAMPLE_CHARACTERS = 100  # characters of an example


def format_counts(unit: str, splits: Mapping[str, int], *more: str) -> str:
    """'pairs: train 30,000, valid 500; a vocabulary of 1,500 tokens'."""
    return "; ".join([f"{unit}: " + ", ".join(f"{name} {count:,}" for name, count in splits.items()), *more])


def split_sizes(splits: Mapping[str, Iterable[object]]) -> dict[str, int]:
    """How many examples each split has, the training split first."""
    names = sorted(splits, key=lambda name: name != "train")
    return {name: sum(1 for _ in splits[name]) for name in names}


def format_vocabulary(size: int, unit: str = "tokens") -> str:
    """'a vocabulary of 1,500 tokens'."""
    return f"a vocabulary of {size:,} {unit}"


def format_first_example(unit: str, text: str, target: str = "") -> str:
    """The first example in a line; a long one is cut, so that the answer to it is seen."""
    shown = " ".join(text.split())
    shown = shown if len(shown) <= MAX_EXAMPLE_CHARACTERS else f"{shown[: MAX_EXAMPLE_CHARACTERS - 2]} …"
    return f"first {unit}: {shown}" + (f" -> {target}" if target else "")
