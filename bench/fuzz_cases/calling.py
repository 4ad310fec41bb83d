"""The command line inside this process, as a user sees it: what it printed where it ended with an error."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

from regard.cli.main import main
from regard.core.errors import RegardError


def call(*words: str, given: bytes = b"") -> str:
    """What a command prints; an error of one line is a RegardError again, any other ending one of ours."""
    printed, errors = io.StringIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8", errors="surrogateescape")
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
        said = errors.getvalue()
        if code == 1 and said.count("\n") == 1:
            raise RegardError(said.strip())
        raise AssertionError(f"ended with {code!r} and {said[-300:]!r}")
    return printed.getvalue()
