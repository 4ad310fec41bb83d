"""Several seeds: mean and deviation, printed and stored."""

from __future__ import annotations

import json

import pytest
from run_cli import call

from regard.cli.sweep import summarize

QUICK = ["training.steps=2", "training.schedule.warmup=2"]


@pytest.fixture(autouse=True)
def working_folder(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(root / "tests" / "training")
    monkeypatch.chdir(tmp_path)


def test_mean_and_sample_deviation():
    reports = [{"scores": {"bleu": value, "aer": 1.0}} for value in (10.0, 12.0, 14.0)]
    reports[2]["scores"].pop("aer")
    assert summarize(reports) == {"bleu": {"mean": 12.0, "deviation": 2.0, "values": [10.0, 12.0, 14.0]}}


def test_seeds_are_trained_evaluated_and_continued(tmp_path, capsys):
    call("train", "toys.summing", *QUICK, "--seeds", 2, "--out", tmp_path / "sweep", "--quiet")
    printed = capsys.readouterr().out
    assert "2 seeds on test" in printed and "mean ± standard deviation" in printed and " ± " in printed
    seeds = [json.loads((tmp_path / "sweep" / f"seed-{n}" / "config.json").read_text())["seed"] for n in (1, 2)]
    assert seeds == [1, 2]
    summary = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert len(summary["metrics"]["accuracy"]["values"]) == 2
    call("train", "toys.summing", *QUICK, "--seeds", 2, "--out", tmp_path / "sweep", "--quiet")
    assert "2 seeds on test" in capsys.readouterr().out


def test_a_sweep_is_not_continued_with_other_settings(tmp_path, capsys):
    """Before, the scores of the old settings were printed as those of the new ones."""
    call("train", "toys.summing", *QUICK, "--seeds", 2, "--out", tmp_path / "sweep", "--quiet")
    capsys.readouterr()
    for settings in (["training.steps=3", QUICK[1]], [*QUICK, "data.examples=20"]):
        with pytest.raises(SystemExit):
            call("train", "toys.summing", *settings, "--seeds", 2, "--out", tmp_path / "sweep", "--quiet")
        (name, new) = (settings[0] if settings[0] != QUICK[0] else settings[-1]).split("=")
        out, error = capsys.readouterr()
        assert out == "" and f"other settings: {name}=" in error and f"(now {new}); repeat the settings" in error


def test_one_seed_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stop:
        call("train", "toys.summing", "--seeds", 1)
    assert stop.value.code == 2 and "--seeds" in capsys.readouterr().err
