"""`regard check`: one line per invariant; a failed one is an error."""

from __future__ import annotations

import json

import pytest
from run_cli import call

from regard.api.run import Run
from regard.inspection.invariants import CheckResult


def test_the_invariants_hold(small, capsys):
    call("check", small)
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.startswith("passed") for line in lines)


def test_a_failed_invariant_is_an_error(small, capsys, monkeypatch):
    results = [CheckResult("1 cuts", True, "0"), CheckResult("2 padding", False, "largest difference 1")]
    monkeypatch.setattr(Run, "check", lambda run: results)
    with pytest.raises(SystemExit):
        call("check", small)
    printed = capsys.readouterr()
    assert "FAILED  2 padding: largest difference 1" in printed.out
    assert printed.err == f"regard: {small}: failed: 2 padding; do not trust the predictions of this model\n"


def test_checks_as_json(small, capsys):
    call("check", small, "--json")
    table = json.loads(capsys.readouterr().out)
    assert table["run"] == str(small) and all(row["passed"] for row in table["checks"])
    assert set(table["checks"][0]) == {"invariant", "passed", "detail"}
