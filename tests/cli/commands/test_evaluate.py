"""`regard evaluate`: scores with how they are computed, printed and kept."""

from __future__ import annotations

import json

from calling import call

from regard.tasks import _bleu

KOREAN = _bleu.tokenizer("ko")  # ko-mecab where that is installed


def test_scores_signatures_and_the_report_that_is_kept(small, capsys):
    call("evaluate", small, "decoding=beam", "--decoding.width", 2, "--json")
    report = json.loads(capsys.readouterr().out)
    assert {"bleu", "bleu_lc", "chrf", "loss", "perplexity", "aer"} <= set(report["scores"])
    assert f"tok:{KOREAN}" in report["signatures"]["bleu"]
    assert report["decoding"]["width"] == 2
    assert report.items() <= json.loads((small / "evaluation-test-beam.json").read_text()).items()


def test_a_table_for_people(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("evaluate", small, "--split", "valid")
    said = capsys.readouterr().out
    assert f"{small} on valid" in said and f"tok:{KOREAN}" in said
