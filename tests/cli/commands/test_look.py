"""`regard look`: the requested files are written, and no partial ones."""

from __future__ import annotations

import pytest
from run_cli import call

TEXT = "The cook reads a book."


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")  # if no font with Hangul is installed
def test_a_page_and_figures_are_written(small, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    page, image = tmp_path / "page.html", tmp_path / "map.png"
    call("look", small, TEXT, "--n", 2, "--html", page, "--png", image)
    assert TEXT in page.read_text(encoding="utf-8") and '"step":3' in page.read_text(encoding="utf-8")
    assert image.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {page}" in capsys.readouterr().out


def test_mistakes_are_one_line_errors(small, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "mine.pdf").write_text("mine")
    cases = {
        ("look", tmp_path, TEXT, "--html", tmp_path / "a.html"): "config.json",
        ("look", small, TEXT, "--png", tmp_path / "a.gif"): "a.gif: --png needs a file name that ends in .png",
        ("look", small, TEXT, "--html", tmp_path / "in.txt"): "in.txt: --html needs a file name that ends in .html",
        ("look", small, TEXT, "--pdf", tmp_path / "mine.pdf"): "mine.pdf: already exists; choose another name",
        ("compare", small, small, TEXT, "--html", tmp_path / "file"): "file: already exists; choose another name",
        ("look", small, "book " * 60, "--html", tmp_path / "a.html"): "was trained for at most 40",
        (
            "look",
            small,
            TEXT,
            "--html",
            tmp_path / "file" / "a.html",
        ): f"a.html: there is no folder {tmp_path / 'file'}; create it first",
        ("look", small, TEXT, "nn=2", "--html", tmp_path / "a.html"): "translate: no setting 'nn'; did you mean",
        ("look", small, TEXT, "nn=2"): "translate: no setting 'nn'; did you mean",
    }
    for args, message in cases.items():
        with pytest.raises(SystemExit) as stop:
            call(*args)
        error = capsys.readouterr().err
        assert stop.value.code == 1 and message in error and error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine.pdf"]
    assert (tmp_path / "mine.pdf").read_text() == "mine"


def test_without_a_file_the_page_is_served_locally(small, monkeypatch, capsys):
    served = {}
    monkeypatch.setattr(
        "regard.serve.server.serve", lambda app, bound: served.update(app=app, address=bound.getsockname())
    )
    call("look", small, TEXT, "--no-browser", "--port", 0)
    host, port = served["address"]
    assert host == "127.0.0.1" and f"http://127.0.0.1:{port}/" in capsys.readouterr().out
    assert {route.path for route in served["app"].routes} >= {"/", "/api/look", "/api/tile"}
