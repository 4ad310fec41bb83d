"""The Python API: train, load, translate, look; what it says when it is asked for what it cannot do."""

import pytest

import regard
from regard.core.errors import ConfigError

SMALL = ["model=bahdanau", "model.dim=8", "model.embedding=8", "data.pairs=100", "data.vocabulary=300"]
SHORT = ["training.steps=2", "training.evaluation.every=2", "decoding=greedy"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.train("translation", [*SMALL, *SHORT], out=tmp_path_factory.mktemp("runs") / "small")


def test_a_loaded_run_translates_as_the_trained_one(run):
    texts = ["Please buy two apples.", "", "Suji slept on Monday."]
    found = run.translate(texts)
    assert found[1] == ""
    assert regard.load(run.folder).translate(texts) == found


def test_candidates_are_as_many_as_asked_for_and_best_first(run):
    (found,) = run.candidates(["Please buy two apples."], nbest=3)
    assert len(found) == 3
    (wide,) = regard.load(run.folder, ["decoding=beam", "decoding.width=4"]).candidates(["Please buy."], nbest=6)
    assert len(wide) == 6


def test_checks_and_looks(run):
    assert all(verdict.kept for verdict in run.check())
    assert "<iframe" in run.look("Please buy two apples.")._repr_html_()
    assert run.sizes == run.task.sizes


def test_mistakes_are_named(run):
    with pytest.raises(ConfigError, match=r"translate takes a list of texts; write translate\(\[text\]\)"):
        run.translate("Please buy two apples.")
    with pytest.raises(ConfigError, match="nbest=0: ask for at least one"):
        run.candidates(["x"], nbest=0)
    with pytest.raises(ConfigError, match=r"model\.dim=9: a trained run keeps its model"):
        regard.load(run.folder, ["model.dim=9"])


def test_a_run_of_another_task_does_not_translate(run):
    from types import SimpleNamespace

    from regard.api.run import Run

    other = SimpleNamespace(folder=run.folder, recipe=run.recipe, task=SimpleNamespace(), model=run.model)
    with pytest.raises(ConfigError, match="which does not translate"):
        Run(other).translate(["x"])
