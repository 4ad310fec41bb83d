"""`regard check`: a line a law; a broken one is an error."""

from __future__ import annotations

import pytest
from run_cli import call

from regard.api.run import Run
from regard.inspection.invariants import CheckResult


def test_the_laws_are_kept(small, capsys):
    call("check", small)
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.startswith("kept") for line in lines)


def test_a_broken_law_is_an_error(small, capsys, monkeypatch):
    verdicts = [CheckResult("1 cuts", True, "0"), CheckResult("2 padding", False, "largest difference 1")]
    monkeypatch.setattr(Run, "check", lambda run: verdicts)
    with pytest.raises(SystemExit):
        call("check", small)
    printed = capsys.readouterr()
    assert "FAILED  2 padding: largest difference 1" in printed.out
    assert printed.err == f"regard: {small}: failed: 2 padding; do not trust the predictions of this model\n"
