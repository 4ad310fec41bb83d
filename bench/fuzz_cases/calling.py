"""Call the command line in this process."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from unittest import mock

from regard.cli.main import main
from regard.cli.output import FailedInputs
from regard.core.errors import RegardError


def call(*words: str, stdin_bytes: bytes = b"") -> str:
    """Return the output of a command; a one-line error, or one per line of the input, becomes a RegardError.

    Any other exit becomes an AssertionError.
    """
    printed, errors = io.StringIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(stdin_bytes), encoding="utf-8", errors="surrogateescape")
    with (
        mock.patch.object(sys, "argv", ["regard", *words]),
        mock.patch.object(sys, "stdin", stdin),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
        else:
            code = 0
    if code:
        printed = errors.getvalue()
        if code == 1 and printed.count("\n") == 1:
            raise RegardError(printed.strip())
        if code == FailedInputs.code and _is_one_line_each(printed.splitlines()):
            raise RegardError(printed.splitlines()[-1])
        raise AssertionError(f"ended with {code!r} and {printed[-300:]!r}")
    return printed.getvalue()


def _is_one_line_each(printed: list[str]) -> bool:
    """Return True if the lines are messages about lines of the standard input, and last how many of them failed."""
    *messages, last = printed
    expected = re.compile(r"regard: (standard input:\d+: .|[\d,]+ of [\d,]+ inputs were adjusted; )")
    return " inputs failed and " in last and all(expected.match(line) for line in messages)
