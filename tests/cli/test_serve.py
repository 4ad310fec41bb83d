"""`regard serve`: this machine alone unless another host is named."""

from __future__ import annotations

from types import SimpleNamespace

from regard.cli import serve


def test_it_serves_the_run_where_it_is_told(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(serve.runs, "load", lambda folder: SimpleNamespace(folder=folder))
    monkeypatch.setattr(serve, "subject", lambda run: run.folder)
    monkeypatch.setattr(serve, "create", lambda subject, text: (subject, text))
    monkeypatch.setattr(serve, "serve", lambda app, *, host, port: asked.append((app, host, port)))
    serve.run(tmp_path, text=None, host="127.0.0.1", port=8765)
    serve.run(tmp_path, text="They sleep.", host="0.0.0.0", port=80)
    first, second = asked
    assert first == ((tmp_path, serve.FIRST), "127.0.0.1", 8765)
    assert second == ((tmp_path, "They sleep."), "0.0.0.0", 80)
    assert "http://127.0.0.1:8765/" in capsys.readouterr().out
