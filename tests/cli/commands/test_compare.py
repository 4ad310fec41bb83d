"""`regard compare`: one input, several runs, one table and one page."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pytest
from rich.cells import cell_len
from rich.console import Console
from run_cli import call
from small_data import COUNT

from regard.cli.commands.compare import print_comparison
from regard.inspection.compare import unique_names

SHORT = ["data.pairs=60", "data.vocab_size=300", "training.steps=2", "training.evaluation.every=2"]
TEXT = "The cook reads a book."


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    seq2seq = tmp_path_factory.mktemp("runs") / "seq2seq"
    call("train", "translation", "model=seq2seq", "model.dim=16", "model.embedding=8", *SHORT, "--out", seq2seq)
    return [seq2seq, small]


def test_a_table_and_a_page(folders, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("compare", *folders, TEXT, "n=2", "--html", tmp_path / "both.html")
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("parameters", "log p", "seconds", "seq2seq", "transformer"))
    assert "seq2seq: no attention map; seq2seq has no attention" in printed
    assert '"runs":[' in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_metrics_on_a_split_and_predictions(folders, capsys):
    call("compare", *folders, TEXT, "--split", "valid", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows] == ["seq2seq", "small"]
    assert all({"output", "model", "parameters", "seconds", "split"} <= set(row) for row in rows)
    assert all({"bleu", "loss"} <= set(row["scores"]) for row in rows)
    call("compare", *folders, "--split", "valid")
    printed = capsys.readouterr().out
    assert "bleu on valid" in printed and f"{rows[0]['scores']['loss']:.4f}"[:5] in printed


def test_one_row_a_run_with_interval_and_paired_test(small, capsys, tmp_path):
    """Two copies of a run predict the same, so that no exchange changes the difference: p = 1."""
    copy = shutil.copytree(small, tmp_path / "copy")
    call("compare", small, copy, "--split", "valid", "--json", "--trust")
    first, second = json.loads(capsys.readouterr().out)
    assert first["examples"] == COUNT and first["intervals"]["bleu"]["examples"] == COUNT
    assert first["intervals"]["bleu"]["low"] <= first["scores"]["bleu"] <= first["intervals"]["bleu"]["high"]
    assert "p_value" not in first and second["p_value"] == {"metric": "bleu", "against": "small", "p": 1.0}
    call("compare", small, copy, "--split", "valid", "--csv", "--trust")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["run"] for row in rows] == ["small", "copy"] and float(rows[1]["p"]) == 1.0
    assert float(rows[0]["bleu on valid"]) == pytest.approx(first["scores"]["bleu"], abs=1e-4)


def test_many_runs_are_many_rows_of_equal_columns():
    console = Console(width=60, file=io.StringIO(), markup=False)
    facts = [{"run": f"run-{i}", "split": "test", "scores": {"a_long_name": i / 7, "b": 1.0}} for i in range(12)]
    print_comparison(facts, console)
    header, *lines = console.file.getvalue().splitlines()
    assert header.split("  ")[0] == "run" and "a_long_name on test" in header
    assert [line.split()[0] for line in lines] == [f"run-{i}" for i in range(12)]
    assert len({len(line) for line in [header, *lines]}) == 1


def test_runs_of_different_tasks_are_refused(small, tmp_path, capsys):
    tagging = tmp_path / "tags"
    sizes = ["model.preset=small", "data.examples=40", "training.steps=1"]
    call("train", "tagging", *sizes, "--out", tagging, "--quiet")
    with pytest.raises(SystemExit) as stop:
        call("compare", small, tagging, "--split", "valid")
    assert stop.value.code == 1
    assert "(translation) and" in (error := capsys.readouterr().err) and "compare runs of one task" in error


def test_text_is_wrapped_between_words_in_a_narrow_terminal():
    text = "간호사가 오래된 집에서 책을 읽고 있었는데 아이들이 정원에서 조용히 놀고 있었다"
    console = Console(width=40, file=io.StringIO(), markup=False)
    print_comparison([{"run": "a", "output": text, "log p": -1.5}, {"run": "b", "output": text}], console)
    lines = console.file.getvalue().splitlines()
    assert all(cell_len(line) <= 40 for line in lines)
    assert [word for line in lines if line.startswith("    ") for word in line.split()] == text.split() * 2


def test_runs_get_unique_names(tmp_path):
    first, second = tmp_path / "monday" / "run", tmp_path / "tuesday" / "run"
    assert unique_names([first, second]) == ["monday/run", "tuesday/run"]
    assert unique_names([first, tmp_path / "b"]) == ["run", "b"]
    assert unique_names([first, first]) == ["run (1)", "run (2)"]


def test_mistakes_are_one_line_errors(folders, capsys):
    for args, message in (
        ([folders[0], TEXT], 'compare needs two runs and an input: regard compare RUN RUN "a sentence"'),
        ([folders[0], "gone", TEXT], "regard: gone: no such run folder"),
        ([folders[0], "gone", "--split", "test"], "regard: gone: no such run folder"),
        ([folders[0]], "or to compare metrics: regard compare RUN RUN --split test"),
        ([*folders, folders[0]], "is a run folder; the input comes last"),
        ([*folders, "--split", "valid", "--html", "x.html"], "--html x.html needs an input; give one after the runs"),
        ([*folders, TEXT, "nn=2"], "translate: no setting 'nn'; did you mean 'n'?"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("compare", *args)
        assert stop.value.code == 1 and message in capsys.readouterr().err
