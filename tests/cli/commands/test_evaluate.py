"""`regard evaluate`: scores with how they are computed, printed and kept."""

from __future__ import annotations

import json
import re

import pytest
from run_cli import call

from regard.core.errors import FileError
from regard.tasks.translation import metrics
from regard.training import tensor_files

KOREAN = metrics.bleu_tokenizer("ko")  # ko-mecab where that is installed


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

    monkeypatch.setattr(tensor_files, "write_json", refused)
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


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run on one text file of one's own, of which nothing is held out for testing."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "one.txt").write_text("".join(f"The {i} cats sat on the mats.\n" for i in range(99)), encoding="utf-8")
    model = ["model.layers=1", "model.dim=8", "model.heads=1", "model.ffn_dim=8", "data.context=8"]
    call("train", "language", f"data.paths={folder / 'one.txt'}", *model, "training.steps=1", "--out", folder / "run")
    return folder / "run"


def test_where_there_is_no_test_split_the_other_is_scored_and_it_is_said(plain, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("evaluate", plain)
    assert f"{plain} on valid, as its data has no test split" in capsys.readouterr().out
    call("evaluate", plain, "--json")
    assert json.loads(capsys.readouterr().out)["split"] == "valid"
    assert [path.name for path in plain.glob("evaluation-*")] == ["evaluation-valid-sample.json"]
    call("evaluate", plain, "--split", "valid")
    assert "as its data" not in capsys.readouterr().out


def test_a_test_split_that_is_asked_for_and_not_there_is_an_error_with_the_other(plain, capsys):
    for words in (["evaluate", plain], ["compare", plain, plain]):
        with pytest.raises(SystemExit):
            call(*words, "--split", "test")
        assert capsys.readouterr().err == f"regard: {plain}: its data has no split 'test'; use --split valid\n"


def test_a_run_with_a_test_split_is_scored_on_it(small, capsys):
    call("evaluate", small, "--bleu", "char", "--json")
    assert json.loads(capsys.readouterr().out)["split"] == "test"
