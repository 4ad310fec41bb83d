"""`regard info`: task, model, settings and sizes of a run."""

from __future__ import annotations

import json
import re

from run_cli import call

from regard.training import recipe as recipes
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
