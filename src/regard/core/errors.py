"""Exceptions that the user can act on, and helpers for their messages.

Every message is one line of the form `subject: problem; remedy` with the value that caused it.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable

MAX_MESSAGE_CHARACTERS = 1500  # the middle of a longer message is left out


class RegardError(Exception):
    """An error that the user can fix. The command line prints it as one line and exits with its `code`."""

    code = 1

    def __init__(self, message: str = "", *, command: str = "", python: str = "") -> None:
        """Store a message, and its remedy as a command and as a Python call, if they differ."""
        super().__init__(f"{message}: {python}" if python else message)
        self._message, self._command = message, command

    def __str__(self) -> str:
        """Return the message as one printable line, whatever file names and values it contains."""
        return _one_line(super().__str__())

    def for_command_line(self) -> str:
        """Return the message as one printable line, with the command that is the remedy."""
        return _one_line(f"{self._message}: {self._command}") if self._command else str(self)


class ConfigError(RegardError):
    """A setting that is unknown, has the wrong type, or contradicts another one."""


class DataError(RegardError):
    """A data file that is missing, damaged or has an unexpected format."""


class FileError(RegardError):
    """A file that could not be written."""


class ShapeError(RegardError):
    """Tensors whose shapes or types do not fit together."""


class CheckpointError(RegardError):
    """A run folder that is missing, damaged or from another version."""


class TrustError(RegardError):
    """An untrusted run that would import code or access the network."""


class HubError(RegardError):
    """A run on the Hugging Face Hub that does not exist, or that cannot be read or written."""


class MissingExtra(RegardError):
    """An optional dependency that is not installed."""


def _one_line(text: str) -> str:
    line = printable(" ".join(text.splitlines()))
    return line if len(line) <= MAX_MESSAGE_CHARACTERS else f"{line[: MAX_MESSAGE_CHARACTERS - 400]} … {line[-300:]}"


def printable(text: str) -> str:
    """Replace control characters, which a terminal would interpret."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def did_you_mean(word: str, choices: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """Return "did you mean …?" with the closest choice, or the list of choices if none is close.

    `listed` replaces that list if there are too many choices.
    """
    options = sorted(choices)
    if not options:
        return "there is none"
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(options if listed is None else sorted(listed))}"


def quote_setting(setting: str) -> str:
    """Quote a setting for a shell if necessary; letters of any script need no quotes."""
    return setting if re.fullmatch(r"[\w@%+=:,./-]+", setting) else shlex.quote(setting)


def pluralize(count: int, noun: str) -> str:
    """Return the count with its noun: '1 error', '1,200 errors', '2 classes'."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("s") else "s")
