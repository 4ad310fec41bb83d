"""Being watched changes nothing."""

from __future__ import annotations

from regard.training.folder import Folder
from regard.training.run import resume, train
from regard.training.watch import nobody


def test_a_watcher_sees_every_step_and_the_run_is_the_same(toy, silent, tmp_path):
    seen = []

    def watch(recipe, task, *, model, run, step):
        model.eval()
        seen.append((step, run))
        model.train()

    train(toy(), tmp_path / "watched", console=silent, watch=watch)
    train(toy(), tmp_path / "alone", console=silent)
    assert seen == [(step, tmp_path / "watched") for step in range(1, 13)]
    assert Folder(tmp_path / "watched").model.read_bytes() == Folder(tmp_path / "alone").model.read_bytes()


def test_a_resumed_run_is_watched_from_where_it_stood(toy, silent, tmp_path):
    steps = []
    train(toy("training.steps=5"), tmp_path / "run", console=silent)

    def watch(recipe, task, *, model, run, step):
        steps.append(step)

    resume(tmp_path / "run", ["training.steps=8"], console=silent, watch=watch)
    assert steps == [6, 7, 8]


def test_nobody_does_nothing(tmp_path):
    assert nobody(None, None, model=None, run=tmp_path, step=1) is None
