"""`regard evaluate`: scores with how they are computed, printed and kept."""

from __future__ import annotations

import json
import re

from calling import call

from regard.core.errors import FileError
from regard.tasks import _bleu
from regard.training import sealed

KOREAN = _bleu.tokenizer("ko")  # ko-mecab where that is installed


def test_scores_signatures_and_the_report_that_is_kept(small, capsys):
    call("evaluate", small, "decoding=beam", "--decoding.width", 2, "--json")
    report = json.loads(capsys.readouterr().out)
    assert {"bleu", "bleu_lc", "chrf", "loss", "perplexity", "aer"} <= set(report["scores"])
    assert f"tok:{KOREAN}" in report["signatures"]["bleu"]
    assert report["decoding"]["width"] == 2
    assert report.items() <= json.loads((small / "evaluation-test-beam.json").read_text()).items()


def test_a_signature_is_one_whole_line_however_narrow_the_terminal(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    call("evaluate", small, "--split", "valid")
    assert re.search(
        r"^  bleu: nrefs:1\|case:mixed\|eff:no\|tok:\S+\|version:\S+$", capsys.readouterr().out, re.MULTILINE
    )


def test_in_a_folder_that_cannot_be_written_to_scores_are_printed(small, capsys, monkeypatch):
    def refused(path, table):
        raise FileError(f"{path}: could not be written (Read-only file system)")

    monkeypatch.setattr(sealed, "write_json", refused)
    call("evaluate", small, "--split", "valid")
    printed = capsys.readouterr()
    assert "perplexity" in printed.out
    assert (
        printed.err.startswith("regard: the scores are not kept in the run folder: ") and printed.err.count("\n") == 1
    )


def test_a_table_for_people(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("evaluate", small, "--split", "valid")
    said = capsys.readouterr().out
    assert f"{small} on valid" in said and f"tok:{KOREAN}" in said
