"""`regard info`: what a run is."""

from __future__ import annotations

import json
import re

from run_cli import call


def test_facts_as_json_and_as_a_table(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("info", small, "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["task"] == "translation" and facts["verb"] == "translate"
    assert facts["model"]["name"] == "transformer" and facts["parameters"] > 0
    assert facts["spec"]["source"] == 300 and facts["step"] == 3
    call("info", small)
    said = capsys.readouterr().out
    assert all(
        name in said for name in ("seed", "training.optimizer.lr", "training.steps", "checksum.train", "data.dataset")
    )
    assert "True" not in said and "False" not in said and "None" not in said
    assert re.search(r"data\.joint +│ no ", said) and re.search(r"data\.path +│ – ", said)
    assert "model.dim" in said and "sizes.longest" in said and f"{facts['parameters']:,}" in said
