"""Write measured text between two markers of a page: `<!-- name -->` and `<!-- end name -->`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

PATH_OPTIONS = ("--page", "--folder", "--report", "--work")  # have no influence on the figures


def put(page: Path, name: str, text: str, *, command: str = "", has_dates: bool = False) -> None:
    """Replace the text between the markers, which the page must have, and state the command and the date.

    `has_dates` True: the text has the dates of its figures.
    """
    before, _, after = _parts(page, name)
    date = "" if has_dates else f"on {today()} "
    measured = f"Measured {date}with `{command or shown_command(sys.argv)}`."
    marked = f"<!-- {name} -->\n\n{text.strip()}\n\n{measured}\n\n<!-- end {name} -->"
    page.write_text(f"{before}{marked}{after}", encoding="utf-8")


def section(page: Path, name: str) -> str:
    """Return the text between the markers."""
    return _parts(page, name)[1]


def today() -> str:
    """Return the date of the measurement."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def shown_command(words: Sequence[str]) -> str:
    """Words of a command line -> the command, without options that name files of this machine."""
    script, *rest = words
    kept = [
        word
        for index, word in enumerate(rest)
        if word.partition("=")[0] not in PATH_OPTIONS and (index == 0 or rest[index - 1] not in PATH_OPTIONS)
    ]
    return shlex.join(["python", f"bench/{Path(script).name}", *kept])


def _parts(page: Path, name: str) -> tuple[str, str, str]:
    first, last = f"<!-- {name} -->", f"<!-- end {name} -->"
    before, start, rest = page.read_text(encoding="utf-8").partition(first)
    inside, ended, after = rest.partition(last)
    if not (start and ended):
        raise SystemExit(f"{page}: there is no {first} with {last} after it to write between")
    return before, inside, after
