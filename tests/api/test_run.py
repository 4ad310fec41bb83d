"""The Python API: train, resume, load, predict, inspect, pickle; and its error messages."""

import pickle
import pickletools
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import ConfigError
from regard.core.task import Prediction
from regard.decoding.strategy import build

TEXTS = ["Please buy two apples.", "", "Suji slept on Monday."]


def test_a_loaded_run_predicts_as_the_trained_one(run):
    translations = run.translate(TEXTS)
    assert translations[1] == ""
    assert regard.load(run.folder).translate(TEXTS) == translations
    assert [predictions[0].text for predictions in run.predict(TEXTS)] == translations


def test_a_run_describes_itself(run):
    assert repr(run) == f"Run('{run.folder}': bahdanau for translation, {run.parameters / 1000:.1f} k parameters)"
    assert run.parameters == sum(weight.numel() for weight in run.model.parameters())
    assert run.verb == "translate" and run.options().n == 1


def test_a_pickled_run_holds_its_folder_and_settings_only(run):
    wide = regard.load(run.folder, {"decoding": {"name": "beam", "beam_width": 3}})
    data = pickle.dumps(wide)
    copy = pickle.loads(data)
    assert copy.recipe == wide.recipe and copy.translate(TEXTS) == wide.translate(TEXTS)
    names = {argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)}
    assert {name for name in names if name.startswith("regard")} <= {"regard.api.run", "regard.api.run load"}
    assert len(data) < 500


def test_n_predictions_start_with_the_single_one_and_the_rest_is_sorted(run):
    (predictions,), (single,) = (run.predict(["Please buy two apples."], n=n) for n in (3, 1))
    assert len(predictions) == 3 and all(isinstance(prediction, Prediction) for prediction in predictions)
    assert predictions[0].text == single[0].text
    ranks = [prediction.ranking_score for prediction in predictions[1:]]
    assert ranks == sorted(ranks, reverse=True)
    (wide,) = regard.load(run.folder, ["decoding=beam", "decoding.beam_width=4"]).predict(["Please buy."], n=6)
    assert len(wide) == 6


def test_the_decoding_is_changed_for_a_request(run):
    expected = regard.load(run.folder, ["decoding=beam", "decoding.beam_width=3"]).predict(TEXTS)
    for decoding in ({"name": "beam", "beam_width": 3}, build("beam", beam_width=3)):
        assert run.predict(TEXTS, decoding=decoding) == expected
    assert run.recipe.decoding.name == "greedy"


def test_no_inputs_no_predictions(run):
    assert run.predict([]) == []


def test_a_run_is_resumed(run, tmp_path):
    folder = shutil.copytree(run.folder, tmp_path / "copy")
    resumed = regard.resume(folder, {"training.steps": 3})
    assert resumed.recipe.training.steps == 3 and resumed.folder == folder


def test_metrics_checks_and_inspections(run):
    assert run.task.target_metric.metric in run.evaluate("valid")
    assert "aer" in run.extra_metrics("valid")
    assert all(result.passed for result in run.check())
    assert "<iframe" in run.look("Please buy two apples.", n=2)._repr_html_()


def test_an_array_of_texts_is_accepted(run):
    texts = ["Please buy two apples.", "They sleep."]
    assert run.translate(np.array(texts)) == run.translate(tuple(texts)) == run.translate(texts)


def test_errors_name_the_mistake(run):
    with pytest.raises(ConfigError, match=r"translate takes a list of texts; write translate\(\[text\]\)"):
        run.translate("Please buy two apples.")
    for value, name in ((None, "None .NoneType."), (float("nan"), "nan .float."), (["a"], r"\['a'\] .list.")):
        with pytest.raises(
            ConfigError, match=rf"^input 2 is {name}, which cannot be read: .*; give a text, or the path"
        ):
            run.translate(["Please buy two apples.", value])
    with pytest.raises(ConfigError, match=r"translate takes a list of texts; write translate\(\[text\]\)"):
        run.translate(5)
    with pytest.raises(ConfigError, match="n=0 must be at least 1"):
        run.predict(["x"], n=0)
    with pytest.raises(ConfigError, match="translate: no setting 'nn'; did you mean 'n'"):
        run.predict(["x"], nn=2)
    with pytest.raises(
        ConfigError,
        match=r"translate: no setting 'no_repeat_ngram_size'; did you mean 'decoding\.no_repeat_ngram_size'",
    ):
        run.predict(["x"], no_repeat_ngram_size=2)
    with pytest.raises(ConfigError, match=r"model\.dim=9: a trained run keeps its model"):
        regard.load(run.folder, {"model.dim": 9})
    with (
        pytest.raises(ConfigError, match="PyTorch does not find a CUDA GPU")
        if not torch.cuda.is_available()
        else nullcontext()
    ):
        regard.load(run.folder, device="cuda")
