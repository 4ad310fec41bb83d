"""Fixtures of the server tests: small untrained models, shared with the inspection tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "inspection"))

import tiny_runs


@pytest.fixture(autouse=True)
def without_placeholder(monkeypatch):
    """Answer `GET /` with the complete page, also on a busy machine; a placeholder has the status 200 in any case."""
    monkeypatch.setattr("regard.serve.app.PLACEHOLDER_DELAY_S", 60)


@pytest.fixture(scope="session")
def subject():
    """An untrained tiny Transformer as an inspection target."""
    return tiny_runs.make_subject(tiny_runs.make_task())


@pytest.fixture(scope="session")
def run(subject, tmp_path_factory):
    """The same model as a run."""
    recipe = SimpleNamespace(
        task=SimpleNamespace(name="translation"), model=SimpleNamespace(name="transformer"), decoding=subject.decoding
    )
    folder = tmp_path_factory.mktemp("runs") / "en-ko"
    return SimpleNamespace(folder=folder, recipe=recipe, task=subject.task, model=subject.model)


@pytest.fixture(scope="session")
def loaded_run(tmp_path_factory):
    """An untrained run, as it is loaded from its folder."""
    from regard.api.run import Run
    from regard.training import recipe as recipes
    from regard.training.load_run import LoadedRun

    task = tiny_runs.make_task()
    recipe = recipes.read("translation", settings=["decoding=greedy", "decoding.no_repeat_ngram_size=1"])
    return Run(LoadedRun(tmp_path_factory.mktemp("served"), recipe, task, tiny_runs.make_model(task, "transformer")))


@pytest.fixture
def served_runs(loaded_run):
    """The same run, served under two names."""
    from regard.serve.model_runtime import ServedRun

    return [ServedRun("en-ko", loaded_run), ServedRun("other", loaded_run)]


@pytest.fixture(autouse=True)
def no_tables(monkeypatch):
    """Skip the plots of the parameter tables, which are slow and tested elsewhere."""
    monkeypatch.setattr("regard.inspection.collect.collect_tables", lambda *_: tiny_runs.TABLES)


@pytest.fixture
def sentence(subject):
    return subject.task.split("train")[0][0]
