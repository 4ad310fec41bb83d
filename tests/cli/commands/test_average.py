"""`regard average`: a new run beside the old one."""

from __future__ import annotations

import pytest
from run_cli import call

SETTINGS = ["training.steps=4", "training.evaluation.every=1", "training.evaluation.average_last=3"]


@pytest.mark.parametrize("named", [True, False])
def test_it_says_where_the_average_is(root, tmp_path, capsys, monkeypatch, named):
    monkeypatch.syspath_prepend(root / "tests" / "training")
    call("train", "toys.summing", *SETTINGS, "--out", tmp_path / "run")
    out = tmp_path / "mean" if named else tmp_path / "run-average"
    call("average", tmp_path / "run", "--last", 2, *(["--out", out] if named else []))
    assert f"score it with: regard evaluate {out}" in capsys.readouterr().out
    assert (out / "model.safetensors").exists()
