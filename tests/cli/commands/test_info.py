"""`regard info`: task, model, settings and sizes of a run."""

from __future__ import annotations

import json
import re
import shutil

from run_cli import call

from regard.cli.commands import info
from regard.core import checksummed_json
from regard.training import recipe as recipes
from regard.training import stored_evaluations
from regard.training.run_folder import RunFolder, read_recipe


def test_facts_as_json_and_as_a_table(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("info", small, "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["task"] == "translation" and facts["verb"] == "translate"
    assert facts["model"]["name"] == "transformer" and facts["parameters"] > 0
    assert facts["spec"]["source_vocab_size"] == 300 and facts["step"] == 3
    call("info", small)
    printed = capsys.readouterr().out
    assert all(
        name in printed
        for name in ("seed", "training.optimizer.lr", "training.steps", "checksum.train", "data.dataset")
    )
    assert "True" not in printed and "False" not in printed and "None" not in printed
    assert re.search(r"data\.joint +│ no ", printed) and re.search(r"data\.path +│ – ", printed)
    assert "model.dim" in printed and "spec.max_length" in printed and f"{facts['parameters']:,}" in printed


def test_the_recipe_of_a_run_trains_it_again(small, capsys, tmp_path):
    call("info", small, "--recipe")
    path = tmp_path / "again.toml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith(f"# The recipe of {small.name}, run ")
    recipe = recipes.read("translation", path)
    assert recipe == read_recipe(RunFolder(small))


def test_evaluations_are_shown_with_their_settings(small, tmp_path, capsys, monkeypatch):
    """Widths 1 and 2 of a beam have separate files; the scores stand next to the settings that gave them."""
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "run"
    shutil.copytree(small, folder)
    for path in folder.glob("evaluation-*.json"):
        path.unlink()
    old = {"split": "test", "decoding": {"name": "sample", "temperature": 0.5}, "scores": {"bleu": 0.25}}
    checksummed_json.write_json(folder / "evaluation-test-sample.json", old)  # as older versions wrote it
    for width in (1, 2):
        decoding = {"name": "beam", "beam_width": width}
        report = {"split": "test", "decoding": decoding, "settings": [], "step": 3, "scores": {"bleu": float(width)}}
        stored_evaluations.store(folder, report)
    report = {"split": "test", "decoding": info.describe(folder)["decoding"], "settings": [], "step": 1}
    stored_evaluations.store(folder, {**report, "scores": {"bleu": 7.5}})
    call("info", folder, "--json")
    evaluations = json.loads(capsys.readouterr().out)["evaluations"]
    assert {(item["changed"], item["scores"]["bleu"]) for item in evaluations} == {
        ("decoding=beam decoding.beam_width=1", 1.0),
        ("decoding=beam decoding.beam_width=2", 2.0),
        ("decoding=sample decoding.temperature=0.5", 0.25),
        ("", 7.5),
    }
    call("info", folder)
    printed = capsys.readouterr().out
    assert re.search(r"test \(decoding=beam decoding\.beam_width=1\)\.bleu +│ 1 ", printed)
    assert re.search(r"test \(step 1\)\.bleu +│ 7\.5 ", printed)  # the weights are those of step 3
