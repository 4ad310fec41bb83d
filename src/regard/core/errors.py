"""Errors a user can act on: each message names the thing, its value and the remedy, in one line.

Numbers with the word for what is counted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_MESSAGE_CHARACTERS = 1500  # letters of a message; of a longer one the middle is left out


class RegardError(Exception):
    """Something the user can mend. The command line prints it as one line and exits with its code."""

    code = 1

    def __str__(self) -> str:
        """One line that can be shown anywhere, whatever was in the names of files and the values it tells of."""
        line = printable(" ".join(super().__str__().splitlines()))
        return (
            line if len(line) <= MAX_MESSAGE_CHARACTERS else f"{line[: MAX_MESSAGE_CHARACTERS - 400]} … {line[-300:]}"
        )


class ConfigError(RegardError):
    """A setting that is unknown, of the wrong type, or at odds with another one."""


class DataError(RegardError):
    """A file that is missing, damaged or not what it should be."""


class FileError(RegardError):
    """A file that could not be written."""


class ShapeError(RegardError):
    """Tensors that do not fit together."""


class CheckpointError(RegardError):
    """A run folder that is missing, damaged or from another version."""


class TrustError(RegardError):
    """A run of somebody else's that would run code or reach the network, without the user's word for it."""


class MissingExtra(RegardError):
    """An optional dependency that is not installed."""


def printable(text: str) -> str:
    """The text without control codes, which would be obeyed by a terminal that shows it."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """'did you mean …?' for a misspelt name, or the list of what there is."""
    options = sorted(choices)
    if not options:
        return "there is none"
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(options)}"


def pluralize(count: int, noun: str) -> str:
    """'1 error', '1,200 errors'."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
