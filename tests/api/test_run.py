"""The Python API: train, resume, load, ask, look, pickle; what it says when it is asked for what it cannot do."""

import pickle
import pickletools

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import ConfigError
from regard.core.task import Prediction
from regard.decoding.strategy import build

SMALL = {"model": "bahdanau", "model.dim": 8, "model.embedding": 8, "data": {"pairs": 100, "vocab_size": 300}}
SHORT = {"training": {"steps": 2, "evaluation.every": 2}, "decoding": "greedy"}
TEXTS = ["Please buy two apples.", "", "Suji slept on Monday."]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.train("translation", {**SMALL, **SHORT}, out=tmp_path_factory.mktemp("runs") / "small")


def test_a_loaded_run_answers_as_the_trained_one(run):
    translations = run.translate(TEXTS)
    assert translations[1] == ""
    assert regard.load(run.folder).translate(TEXTS) == translations
    assert [answers[0].text for answers in run.predict(TEXTS)] == translations


def test_it_says_what_it_is(run):
    assert repr(run) == f"Run('{run.folder}': bahdanau for translation, {run.parameters / 1000:.1f} k parameters)"
    assert run.parameters == sum(weight.numel() for weight in run.model.parameters())
    assert run.verb == "translate" and run.options().n == 1


def test_a_pickled_run_is_the_way_to_load_it(run):
    wide = regard.load(run.folder, {"decoding": {"name": "beam", "beam_width": 3}})
    data = pickle.dumps(wide)
    again = pickle.loads(data)
    assert again.recipe == wide.recipe and again.translate(TEXTS) == wide.translate(TEXTS)
    named = {argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)}
    assert {word for word in named if word.startswith("regard")} <= {"regard.api.run", "regard.api.run load"}
    assert len(data) < 500


def test_answers_are_as_many_as_asked_for_the_first_as_alone_the_others_best_first(run):
    (answers,), (alone,) = (run.predict(["Please buy two apples."], n=nbest) for nbest in (3, 1))
    assert len(answers) == 3 and all(isinstance(answer, Prediction) for answer in answers)
    assert answers[0].text == alone[0].text
    assert [answer.rank for answer in answers[1:]] == sorted((answer.rank for answer in answers[1:]), reverse=True)
    (wide,) = regard.load(run.folder, ["decoding=beam", "decoding.beam_width=4"]).predict(["Please buy."], n=6)
    assert len(wide) == 6


def test_the_search_is_changed_for_a_request(run):
    expected = regard.load(run.folder, ["decoding=beam", "decoding.beam_width=3"]).predict(TEXTS)
    for wanted in ({"name": "beam", "beam_width": 3}, build("beam", beam_width=3)):
        assert run.predict(TEXTS, decoding=wanted) == expected
    assert run.recipe.decoding.name == "greedy"


def test_no_inputs_no_answers(run):
    assert run.predict([]) == []


def test_it_goes_on_where_it_stopped(run, tmp_path):
    import shutil

    folder = shutil.copytree(run.folder, tmp_path / "copy")
    resumed = regard.resume(folder, {"training.steps": 3})
    assert resumed.recipe.training.steps == 3 and resumed.folder == folder


def test_scores_checks_and_looks(run):
    assert run.task.target_metric.metric in run.evaluate("valid")
    assert "aer" in run.report("valid")
    assert all(verdict.kept for verdict in run.check())
    assert "<iframe" in run.look("Please buy two apples.", nbest=2)._repr_html_()


def test_an_array_of_texts_is_as_good_as_a_list(run):
    texts = ["Please buy two apples.", "They sleep."]
    assert run.translate(np.array(texts)) == run.translate(tuple(texts)) == run.translate(texts)


def test_mistakes_are_named(run):
    with pytest.raises(ConfigError, match=r"translate takes a list of texts; write translate\(\[text\]\)"):
        run.translate("Please buy two apples.")
    for odd, name in ((None, "None .NoneType."), (float("nan"), "nan .float."), (["a"], r"\['a'\] .list.")):
        with pytest.raises(
            ConfigError, match=rf"^input 2 is {name}, which cannot be read: .*; give a text, or the path"
        ):
            run.translate(["Please buy two apples.", odd])
    with pytest.raises(ConfigError, match=r"translate takes a list of texts; write translate\(\[text\]\)"):
        run.translate(5)
    with pytest.raises(ConfigError, match="n=0 must be at least 1"):
        run.predict(["x"], n=0)
    with pytest.raises(ConfigError, match="translate: no setting 'nbset'; did you mean 'nbest'"):
        run.predict(["x"], nbset=2)
    with pytest.raises(ConfigError, match=r"translate: no setting 'no_repeat'; did you mean 'decoding\.no_repeat'"):
        run.predict(["x"], no_repeat=2)
    with pytest.raises(ConfigError, match=r"model\.dim=9: a trained run keeps its model"):
        regard.load(run.folder, {"model.dim": 9})
    with pytest.raises(ConfigError, match="PyTorch finds no CUDA GPU") if not torch.cuda.is_available() else _nothing():
        regard.load(run.folder, device="cuda")


def _nothing():
    from contextlib import nullcontext

    return nullcontext()
