"""`regard compare`: one input, several runs, one table and one page."""

from __future__ import annotations

import pytest
from calling import call

SHORT = ["data.pairs=60", "data.vocabulary=300", "training.steps=2", "training.evaluation.every=2"]
TEXT = "The cook reads a book."


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    other = tmp_path_factory.mktemp("runs") / "seq2seq"
    call("train", "translation", "model=seq2seq", "model.dim=16", "model.embedding=8", *SHORT, "--out", other)
    return [other, small]


def test_a_table_and_a_page(folders, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("compare", *folders, TEXT, "nbest=2", "--html", tmp_path / "both.html")
    said = capsys.readouterr().out
    assert all(word in said for word in ("parameters", "log p", "seconds", "seq2seq", "transformer"))
    assert "seq2seq: no attention map; seq2seq attends to nothing" in said
    assert '"runs":[' in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_mistakes_are_one_line(folders, capsys):
    for words, said in (
        ([folders[0], TEXT], 'compare needs two runs and an input: regard compare RUN RUN "a sentence"'),
        ([*folders, folders[0]], "is a run folder; the input comes last"),
        ([*folders, TEXT, "nbset=2"], "translate: no setting 'nbset'; did you mean 'nbest'?"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("compare", *words)
        assert stop.value.code == 1 and said in capsys.readouterr().err
