"""`regard experiment`: what there is, one of them, and what cannot be."""

from __future__ import annotations

import pytest
from calling import call

from regard.core.registry import names


def test_all_are_listed_with_what_they_claim(capsys):
    call("experiment", "--list")
    said = capsys.readouterr().out
    assert all(name in said for name in names("regard.experiments"))
    call("experiment")
    assert capsys.readouterr().out == said


def test_one_is_measured(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    call("experiment", "requirements", "--out", tmp_path)
    said = " ".join(capsys.readouterr().out.split())
    assert "Holds here. All four kept" in said and "page.md" in said
    assert (tmp_path / "requirements" / "plot.png").exists()


def test_mistakes_are_one_line(capsys):
    for words, said in (
        (["gradient"], "unknown experiment 'gradient'; did you mean 'gradients'"),
        (["order", "--minutes", "-1"], "--minutes -1: give more than 0 and less than a day"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("experiment", *words)
        assert stop.value.code == 1 and said in capsys.readouterr().err
