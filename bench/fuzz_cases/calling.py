"""Call the command line in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

from regard.cli.main import main
from regard.core.errors import RegardError


def call(*words: str, stdin_bytes: bytes = b"") -> str:
    """Return the output of a command; a one-line error becomes a RegardError, any other exit an AssertionError."""
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
        said = errors.getvalue()
        if code == 1 and said.count("\n") == 1:
            raise RegardError(said.strip())
        raise AssertionError(f"ended with {code!r} and {said[-300:]!r}")
    return printed.getvalue()
