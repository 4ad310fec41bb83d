"""Errors: one base for all, and the nearest known name."""

from __future__ import annotations

import inspect

import pytest

from regard.core import errors
from regard.core.errors import RegardError, did_you_mean


def test_all_have_one_base():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert len(kinds) > 4
    assert all(issubclass(kind, RegardError) and kind.__doc__ for kind in kinds)


@pytest.mark.parametrize(
    ("word", "text"),
    [("addditive", "did you mean 'additive'?"), ("dto", "did you mean 'dot'?"), ("q", "known: additive, dot")],
)
def test_nearest(word, text):
    assert did_you_mean(word, ["dot", "additive"]) == text
    assert did_you_mean(word, []) == "there is none"


def test_a_message_is_one_line_whatever_it_tells_of():
    assert str(RegardError("a\nfile\x1b[31m: 1\u20282")) == "a file\N{REPLACEMENT CHARACTER}[31m: 1 2"
    long = str(RegardError("x" * 10_000 + "; say less"))
    assert len(long) < 1500 and long.endswith("x; say less") and " … " in long
    assert str(RegardError("plain  words …")) == "plain  words …"
