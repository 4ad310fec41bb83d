"""`regard evaluate`: metrics and their signatures are printed and stored."""

from __future__ import annotations

import json
import re

import pytest
from run_cli import call
from small_data import COUNT

from regard.core.errors import FileError
from regard.tasks.translation import metrics
from regard.training import stored_evaluations

KOREAN = metrics.bleu_tokenizer("ko")


def test_metrics_and_signatures_are_printed_and_stored(small, capsys):
    call("evaluate", small, "decoding=beam", "--decoding.beam-width", 2, "--json")
    report = json.loads(capsys.readouterr().out)
    assert {"bleu", "bleu_lc", "chrf", "loss", "perplexity", "aer"} <= set(report["scores"])
    assert f"tok:{KOREAN}" in report["signatures"]["bleu"]
    assert report["decoding"]["beam_width"] == 2
    (stored,) = [
        item for item in stored_evaluations.read_all(small, "translation") if item["decoding"].get("beam_width") == 2
    ]
    assert report.items() <= stored.items() and report["step"] == 3


def test_a_signature_is_one_complete_line_in_a_narrow_terminal(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    call("evaluate", small, "--split", "valid")
    assert re.search(
        r"^  bleu: nrefs:1\|case:mixed\|eff:no\|tok:\S+\|version:\S+$", capsys.readouterr().out, re.MULTILINE
    )


def test_metrics_are_printed_if_the_folder_is_read_only(small, capsys, monkeypatch):
    def refuse(path, table):
        raise FileError(f"{path}: could not be written (Read-only file system)")

    monkeypatch.setattr(stored_evaluations, "write_json", refuse)
    call("evaluate", small, "--split", "valid")
    printed = capsys.readouterr()
    assert "perplexity" in printed.out
    assert printed.err.startswith("regard: the metrics were not stored in the run folder: ")
    assert printed.err.count("\n") == 1


def test_metrics_as_a_table(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("evaluate", small, "--split", "valid")
    printed = capsys.readouterr().out
    assert f"{small} on valid" in printed and f"tok:{KOREAN}" in printed
    assert re.search(rf"bleu +│ +[\d.e-]+ +│ +[\d.e-]+ – [\d.e-]+ +│ +{COUNT} ", printed)
    (path,) = small.glob("evaluation-valid-greedy-*.json")
    report = json.loads(path.read_text())
    assert report["examples"] == COUNT and report["intervals"]["chrf"]["confidence"] == 0.95
    assert report["intervals"]["chrf"]["low"] <= report["scores"]["chrf"] <= report["intervals"]["chrf"]["high"]


@pytest.fixture(scope="module")
def without_test_split(tmp_path_factory):
    """A run on one text file, which has no test split."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "one.txt").write_text("".join(f"The {i} cats sat on the mats.\n" for i in range(99)), encoding="utf-8")
    model = ["model.layers=1", "model.dim=8", "model.heads=1", "model.ffn_dim=8", "data.context=8"]
    call("train", "language", f"data.paths={folder / 'one.txt'}", *model, "training.steps=1", "--out", folder / "run")
    return folder / "run"


def test_without_a_test_split_the_validation_split_is_used(without_test_split, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("evaluate", without_test_split)
    assert f"{without_test_split} on valid, as its data has no test split" in capsys.readouterr().out
    call("evaluate", without_test_split, "--json")
    assert json.loads(capsys.readouterr().out)["split"] == "valid"
    assert len(list(without_test_split.glob("evaluation-valid-sample-*.json"))) == 1
    call("evaluate", without_test_split, "--split", "valid")
    assert "as its data" not in capsys.readouterr().out


def test_requesting_a_missing_test_split_is_an_error(without_test_split, capsys):
    for args in (["evaluate", without_test_split], ["compare", without_test_split, without_test_split]):
        with pytest.raises(SystemExit):
            call(*args, "--split", "test")
        message = f"regard: {without_test_split}: its data has no split 'test'; use --split valid\n"
        assert capsys.readouterr().err == message


def test_a_run_with_a_test_split_is_evaluated_on_it(small, capsys):
    call("evaluate", small, "--bleu", "char", "--json")
    assert json.loads(capsys.readouterr().out)["split"] == "test"
