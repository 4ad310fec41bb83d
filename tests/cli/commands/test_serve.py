"""`regard serve`: this machine alone unless another host is named."""

from __future__ import annotations

from calling import call


def test_it_serves_the_run_where_it_is_told(small, monkeypatch, capsys):
    created, served = [], []
    monkeypatch.setattr("regard.serve.app.create", lambda run, text=None: created.append((run.folder, text)))
    monkeypatch.setattr("regard.serve.app.serve", lambda app, *, host, port: served.append((host, port)))
    call("serve", small)
    call("serve", small, "They sleep.", "--host", "0.0.0.0", "--port", 80)
    assert created == [(small, None), (small, "They sleep.")]
    assert served == [("127.0.0.1", 8765), ("0.0.0.0", 80)]
    assert "http://127.0.0.1:8765/" in capsys.readouterr().out
