"""`regard compare`: one input, several runs, one table and one page."""

from __future__ import annotations

import io
import json

import pytest
from rich.cells import cell_len
from rich.console import Console
from run_cli import call

from regard.cli.commands.compare import print_comparison
from regard.inspection.compare import unique_names

SHORT = ["data.pairs=60", "data.vocab_size=300", "training.steps=2", "training.evaluation.every=2"]
TEXT = "The cook reads a book."


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    other = tmp_path_factory.mktemp("runs") / "seq2seq"
    call("train", "translation", "model=seq2seq", "model.dim=16", "model.embedding=8", *SHORT, "--out", other)
    return [other, small]


def test_a_table_and_a_page(folders, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("compare", *folders, TEXT, "n=2", "--html", tmp_path / "both.html")
    said = capsys.readouterr().out
    assert all(word in said for word in ("parameters", "log p", "seconds", "seq2seq", "transformer"))
    assert "seq2seq: no attention map; seq2seq has no attention" in said
    assert '"runs":[' in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_scores_on_a_split_stand_beside_what_was_answered(folders, capsys):
    call("compare", *folders, TEXT, "--split", "valid", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert [known["run"] for known in facts] == ["seq2seq", "small"]
    assert all({"output", "model", "parameters", "seconds", "split"} <= set(known) for known in facts)
    assert all({"bleu", "loss"} <= set(known["scores"]) for known in facts)
    call("compare", *folders, "--split", "valid")
    said = capsys.readouterr().out
    assert "bleu on valid" in said and f"{facts[0]['scores']['loss']:.4f}"[:5] in said


def test_text_is_wrapped_between_words_however_narrow_the_terminal():
    text = "간호사가 오래된 집에서 책을 읽고 있었는데 아이들이 정원에서 조용히 놀고 있었다"
    console = Console(width=40, file=io.StringIO(), markup=False)
    print_comparison([{"run": "a", "output": text, "log p": -1.5}, {"run": "b", "output": text}], console)
    lines = console.file.getvalue().splitlines()
    assert all(cell_len(line) <= 40 for line in lines)
    assert [word for line in lines if line.startswith("    ") for word in line.split()] == text.split() * 2


def test_runs_are_told_apart(tmp_path):
    one, two = tmp_path / "monday" / "run", tmp_path / "tuesday" / "run"
    assert unique_names([one, two]) == ["monday/run", "tuesday/run"]
    assert unique_names([one, tmp_path / "b"]) == ["run", "b"]
    assert unique_names([one, one]) == ["run (1)", "run (2)"]


def test_mistakes_are_one_line(folders, capsys):
    for words, said in (
        ([folders[0], TEXT], 'compare needs two runs and an input: regard compare RUN RUN "a sentence"'),
        ([*folders, folders[0]], "is a run folder; the input comes last"),
        ([*folders, "--split", "valid", "--html", "x.html"], "--html x.html needs an input; give one after the runs"),
        ([*folders, TEXT, "nbset=2"], "translate: no setting 'nbset'; known: n"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("compare", *words)
        assert stop.value.code == 1 and said in capsys.readouterr().err
