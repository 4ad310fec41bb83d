"""One thing, several things."""

from __future__ import annotations

import re
from pathlib import Path

from regard.core.errors import pluralize

SOURCE = Path(__file__).parents[2] / "src"


def test_one_and_several():
    said = [pluralize(number, "error") for number in (0, 1, 2, 1200)]
    assert said == ["0 errors", "1 error", "2 errors", "1,200 errors"]


def test_no_message_goes_on_behind_a_question():
    """`did you mean 'x'?; files are given as …`: what is asked comes last."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\{nearest\([^{}]*\)\};", line)
    ]
    assert found == []
