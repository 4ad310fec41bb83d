"""`regard compare`: one sentence, several runs, one table and one page."""

from __future__ import annotations

import pytest
from calling import call

SHORT = ["data.pairs=60", "data.vocabulary=300", "training.steps=2", "training.evaluation.every=2"]
MODELS = {"seq2seq": ["model.dim=16", "model.embedding=8"], "luong": ["model.dim=16", "model.embedding=8"]}
TEXT = "The cook reads a book."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = []
    for name, settings in MODELS.items():
        made.append(tmp_path_factory.mktemp("runs") / name)
        call("train", "translation", f"model={name}", *settings, *SHORT, "--out", made[-1])
    return made


def test_a_table_and_a_page(folders, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("compare", *folders, TEXT, "--html", tmp_path / "both.html")
    said = capsys.readouterr().out
    assert all(word in said for word in ("parameters", "log p", "seconds", "seq2seq", "luong"))
    assert "seq2seq: no attention map; seq2seq hands the decoder a single vector" in said
    assert '"runs":[' in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_mistakes_are_one_line(folders, capsys):
    for words, said in (
        ([folders[0], TEXT], 'compare needs two runs and a text: regard compare RUN RUN "a sentence"'),
        ([*folders, folders[0]], "is a run folder; the text comes last"),
    ):
        with pytest.raises(SystemExit) as stop:
            call("compare", *words)
        assert stop.value.code == 1 and said in capsys.readouterr().err
