"""Exceptions and the helpers of their messages."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from regard.core import errors
from regard.core.errors import RegardError, did_you_mean, pluralize

SOURCE = Path(__file__).parents[2] / "src"


def test_all_errors_have_one_base_class():
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]
    assert len(classes) > 4
    assert all(issubclass(cls, RegardError) and cls.__doc__ for cls in classes)


@pytest.mark.parametrize(
    ("word", "text"),
    [("addditive", "did you mean 'additive'?"), ("dto", "did you mean 'dot'?"), ("q", "known: additive, dot")],
)
def test_did_you_mean(word, text):
    assert did_you_mean(word, ["dot", "additive"]) == text
    assert did_you_mean(word, []) == "there is none"


def test_a_message_is_one_printable_line():
    assert str(RegardError("a\nfile\x1b[31m: 1\u20282")) == "a file\N{REPLACEMENT CHARACTER}[31m: 1 2"
    long = str(RegardError("x" * 10_000 + "; say less"))
    assert len(long) < 1500 and long.endswith("x; say less") and " … " in long
    assert str(RegardError("plain  words …")) == "plain  words …"


def test_pluralize():
    counted = [pluralize(count, "error") for count in (0, 1, 2, 1200)]
    assert counted == ["0 errors", "1 error", "2 errors", "1,200 errors"]


def test_no_message_continues_after_a_question():
    """`did you mean 'x'?; files are given as …`: the question must come last."""
    offenders = [
        f"{path.name}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\{did_you_mean\([^{}]*\)\};", line)
    ]
    assert offenders == []


def test_settings_are_quoted_only_if_the_shell_needs_it():
    assert errors.quote_setting("data.source=질문") == "data.source=질문"
    assert errors.quote_setting("data.source=my column") == "'data.source=my column'"
