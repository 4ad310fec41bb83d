"""`regard predict`: any task, without its verb."""

from __future__ import annotations

import io
import json
import sys

from run_cli import call


def test_predict_prints_the_same_as_the_verb(small, capsys):
    call("translate", small, "Please buy two apples.")
    by_verb = capsys.readouterr().out
    call("predict", small, "Please buy two apples.")
    assert capsys.readouterr().out == by_verb


def test_json_lines_have_inputs_and_predictions(small, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Please buy.\n\n"))
    call("predict", small, "--json", "n=2")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["input"] for row in rows] == ["Please buy.", ""]
    assert [len(row["predictions"]) for row in rows] == [2, 1]
