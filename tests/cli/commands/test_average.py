"""`regard average`: a new run next to the old one."""

from __future__ import annotations

from run_cli import call

SETTINGS = ["training.steps=4", "training.evaluation.every=1", "training.evaluation.average_last=3"]


def test_the_folder_of_the_average_is_printed(root, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(root / "tests" / "training")
    call("train", "toys.summing", *SETTINGS, "--out", tmp_path / "run")
    for args, out in ((["--out", tmp_path / "mean"], tmp_path / "mean"), ([], tmp_path / "run-average")):
        call("average", tmp_path / "run", "--last", 2, *args)
        assert f"evaluate it with: regard evaluate {out}" in capsys.readouterr().out
        assert (out / "model.safetensors").exists()
