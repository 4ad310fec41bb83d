"""`regard experiment`: list experiments, run one or all, and error messages."""

from __future__ import annotations

import pytest
from run_cli import call

from regard.core.errors import MissingExtra
from regard.core.registry import registered_names
from regard.experiments._verdict import ClaimResult


def test_all_experiments_are_listed_with_their_claims(capsys):
    call("experiment", "--list")
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == [
        name.replace("_", "-") for name in registered_names("regard.experiments")
    ]
    call("experiment")
    assert capsys.readouterr().out == printed


def test_one_experiment_is_run(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    call("experiment", "position-requirements", "--out", tmp_path)
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "Holds here. Every condition of the rule is met. Rule: The claim holds if sinusoids" in printed
        and "page.md" in printed
    )
    assert (tmp_path / "position-requirements" / "plot.png").exists()
    call("experiment", "--out", tmp_path, "--page", tmp_path / "claims.md")
    page = (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert (
        "| [`position-requirements`](#position-requirements) |" in page
        and "## soft-hard" in page
        and "**Not measured yet.**" in page
    )
    assert "wrote" in capsys.readouterr().out


def test_an_underscore_means_a_hyphen(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "regard.experiments._runner.run_experiment", lambda experiment, name, out, **_: ClaimResult(True, f"{out}")
    )
    call("experiment", "soft_hard", "--out", tmp_path)
    assert "soft-hard: Soft attention" in (printed := capsys.readouterr().out) and "soft_hard" not in printed


def test_all_experiments_are_run_except_those_without_their_extra(tmp_path, monkeypatch, capsys):
    def run_experiment(experiment, name, out, **_):
        if name == "relative":
            raise MissingExtra("music21 is not installed")
        return ClaimResult(name != "word-order", f"Of {name}.")

    monkeypatch.setattr("regard.experiments._runner.run_experiment", run_experiment)
    with pytest.raises(SystemExit) as stop:
        call("experiment", "all", "--quick", "--out", tmp_path)
    printed = capsys.readouterr()
    assert stop.value.code == 1 and "regard: relative: music21 is not installed" in printed.err
    assert all(
        f"Of {name.replace('_', '-')}." in printed.out
        for name in registered_names("regard.experiments")
        if name != "relative"
    )
    assert printed.out.count("Does not hold here.") == 1


def test_mistakes_are_one_line_errors(capsys):
    for args, message in (
        (["gradient"], "unknown experiment 'gradient'; did you mean 'gradients'"),
        (["alll"], "unknown experiment 'alll'; did you mean 'all'"),
        (["nothing"], "unknown experiment 'nothing'; known: alignment, all, bidirectional,"),
        (["word-order", "--minutes", "-1"], "--minutes -1: give more than 0 and less than a day"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("experiment", *args)
        assert stop.value.code == 1 and message in capsys.readouterr().err
