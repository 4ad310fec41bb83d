"""`regard experiment`: what there is, one of them, and what cannot be."""

from __future__ import annotations

import pytest
from run_cli import call

from regard.core.errors import MissingExtra
from regard.core.registry import registered_names
from regard.experiments._experiment import ClaimResult


def test_all_are_listed_with_what_they_claim(capsys):
    call("experiment", "--list")
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()] == [
        name.replace("_", "-") for name in registered_names("regard.experiments")
    ]
    call("experiment")
    assert capsys.readouterr().out == said


def test_one_is_measured(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    call("experiment", "requirements", "--out", tmp_path)
    said = " ".join(capsys.readouterr().out.split())
    assert "Holds here. All four kept" in said and "page.md" in said
    assert (tmp_path / "requirements" / "plot.png").exists()
    call("experiment", "--out", tmp_path, "--page", tmp_path / "claims.md")
    page = (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert "| [`requirements`](#requirements) |" in page and "| `soft-hard` |" in page
    assert "wrote" in capsys.readouterr().out


def test_an_underscore_is_as_good_as_a_hyphen(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "regard.experiments._runner.run_experiment", lambda experiment, name, out, **_: ClaimResult(True, f"{out}")
    )
    call("experiment", "soft_hard", "--out", tmp_path)
    assert "soft-hard: Soft attention" in (said := capsys.readouterr().out) and "soft_hard" not in said


def test_all_are_measured_but_for_those_that_lack_an_extra(tmp_path, monkeypatch, capsys):
    def conduct(experiment, name, out, **given):
        if name == "relative":
            raise MissingExtra("music21 is not installed")
        return ClaimResult(name != "order", f"Of {name}.")

    monkeypatch.setattr("regard.experiments._runner.run_experiment", conduct)
    with pytest.raises(SystemExit) as stop:
        call("experiment", "all", "--quick", "--out", tmp_path)
    said = capsys.readouterr()
    assert stop.value.code == 1 and "regard: relative: music21 is not installed" in said.err
    assert all(
        f"Of {name.replace('_', '-')}." in said.out
        for name in registered_names("regard.experiments")
        if name != "relative"
    )
    assert said.out.count("Does not hold here.") == 1


def test_mistakes_are_one_line(capsys):
    for words, said in (
        (["gradient"], "unknown experiment 'gradient'; did you mean 'gradients'"),
        (["alll"], "unknown experiment 'alll'; did you mean 'all'"),
        (["nothing"], "unknown experiment 'nothing'; known: alignment, all, bidirectional,"),
        (["order", "--minutes", "-1"], "--minutes -1: give more than 0 and less than a day"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("experiment", *words)
        assert stop.value.code == 1 and said in capsys.readouterr().err
