"""`regard look`: files that were asked for, and nothing half-written."""

from __future__ import annotations

import pytest
from calling import call

from regard.cli import look

SMALL = ["model.layers=1", "model.dim=16", "model.hidden=16", "model.heads=2", "data.pairs=60", "data.vocabulary=300"]
SHORT = ["training.steps=2", "training.evaluation.every=2", "data.longest=40"]
TEXT = "The cook reads a book."


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    call("train", "translation", "model=transformer", *SMALL, *SHORT, f"training.probe={TEXT}", "--out", folder)
    return folder


def test_a_page_and_figures_are_written(run, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    page, picture = tmp_path / "page.html", tmp_path / "map.png"
    call("look", run, TEXT, "--html", page, "--png", picture)
    assert TEXT in page.read_text(encoding="utf-8") and '"step":2' in page.read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {page}" in capsys.readouterr().out


def test_mistakes_are_one_line(run, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    cases = {
        ("look", tmp_path, TEXT, "--html", tmp_path / "a.html"): "config.json",
        ("look", run, TEXT, "--png", tmp_path / "a.gif"): "a.gif: --png writes a file that ends in .png",
        ("look", run, "book " * 60, "--html", tmp_path / "a.html"): "was trained for at most 40",
        ("look", run, TEXT, "--html", tmp_path / "file" / "a.html"): "a.html: cannot be written",
    }
    for words, said in cases.items():
        with pytest.raises(SystemExit) as stop:
            call(*words)
        error = capsys.readouterr().err
        assert stop.value.code == 1 and said in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_a_file_the_page_is_served_on_this_machine(run, monkeypatch, capsys):
    served = {}
    monkeypatch.setattr(look, "serve", lambda app, *, port: served.update(app=app, port=port))
    call("look", run, TEXT, "--quiet", "--port", "9123")
    assert served["port"] == 9123 and "http://127.0.0.1:9123/" in capsys.readouterr().out
    assert {route.path for route in served["app"].routes} >= {"/", "/api/look", "/api/tile"}
