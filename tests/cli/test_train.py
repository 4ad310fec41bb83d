"""`regard train`: new, resumed, and the mistakes one can make."""

from __future__ import annotations

import pytest

from regard.cli.train import free_folder, run
from regard.core.errors import ConfigError
from regard.training import recipe as recipes

QUICK = ["training.steps=4", "training.optimizer.lr=0.01", "training.schedule.warmup=4"]


@pytest.fixture(autouse=True)
def here(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(root / "tests" / "training")
    monkeypatch.chdir(tmp_path)


def test_train_then_resume(tmp_path, capsys):
    run("toys.summing", None, QUICK, out=tmp_path / "run", resume=None)
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'run'}: the weights of step 4, validation accuracy ")
    run(None, None, ["training.steps=9"], out=None, resume=tmp_path / "run")
    assert '"step": 9, "end": "steps"' in (tmp_path / "run" / "log.jsonl").read_text()


def test_only_the_first_process_speaks(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    run("toys.summing", None, QUICK, out=tmp_path / "run", resume=None)
    assert capsys.readouterr().out == ""


def test_a_free_folder_is_found(tmp_path):
    recipe = recipes.read("toys.summing")
    assert str(free_folder(recipe)) == "runs/toys.summing-toys.gated"
    run("toys.summing", None, QUICK, out=None, resume=None)
    run("toys.summing", None, QUICK, out=None, resume=None)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "toys.summing-toys.gated",
        "toys.summing-toys.gated-2",
    ]
    assert free_folder(recipe).name == "toys.summing-toys.gated-3"


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ConfigError, match="name a task, for example: regard train translation"):
        run(None, None, [], out=None, resume=None)
    with pytest.raises(ConfigError, match="goes on with its own recipe and folder; leave out RECIPE and --out"):
        run(None, None, [], out=tmp_path, resume=tmp_path)
