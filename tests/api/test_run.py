"""The Python API: train, resume, load, predict, inspect, pickle; and its error messages."""

import pickle
import pickletools
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import CheckpointError, ConfigError
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


def test_unknown_engines_and_precisions_are_refused_when_a_run_is_loaded(run):
    with pytest.raises(ConfigError, match=r"^no engine 'x'; known: auto, ctranslate2, int8, native$"):
        regard.load(run.folder, engine="x")
    with pytest.raises(ConfigError, match=r"^no precision 'float7'; did you mean 'float32'\?$"):
        regard.load(run.folder, precision="float7")


def test_errors_name_the_mistake(run):
    with pytest.raises(ConfigError, match=r"translate takes a list of inputs; write translate\(\[text\]\)"):
        run.translate("Please buy two apples.")
    for value, name in ((None, "None .NoneType."), (float("nan"), "nan .float."), (["a"], r"\['a'\] .list.")):
        with pytest.raises(
            ConfigError, match=rf"^input 2 is {name}, which cannot be read: .*; give a text, or the path"
        ):
            run.translate(["Please buy two apples.", value])
    with pytest.raises(ConfigError, match=r"translate takes a list of inputs; write translate\(\[input\]\)"):
        run.translate(5)
    with pytest.raises(ConfigError, match=r"convert the tensor of an image to an array: tensor\.permute\(1, 2, 0\)"):
        run.predict([torch.zeros(3, 4, 4)])
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


def test_look_takes_one_input(run):
    with pytest.raises(ConfigError, match=r"^look shows one input; write look\(text\), not look\(\[text\]\)$"):
        run.look(["a"])
    with pytest.raises(ConfigError, match=r"^input 1 is 3 \(int\), which cannot be read: "):
        run.look(3)


def test_errors_are_in_the_words_of_python(run):
    with pytest.raises(CheckpointError, match=r"choose another folder, or continue it: regard\.resume\('") as error:
        regard.train("translation", out=run.folder)
    assert "--" not in str(error.value)
    assert str(error.value.for_command_line()).endswith(f"continue it: regard train --resume {run.folder}")


def test_training_is_logged(tmp_path, caplog, capsys):
    settings = {
        "model": "bahdanau",
        "model.preset": "small",
        "data.pairs": 50,
        "training.steps": 1,
        "decoding": "greedy",
    }
    with caplog.at_level("INFO", logger="regard"):
        regard.train("translation", settings, out=tmp_path / "run", device="cpu")
    lines = [record.getMessage() for record in caplog.records if record.name == "regard"]
    assert any(line.startswith("step 1 ") for line in lines) and capsys.readouterr() == ("", "")


def test_attention_is_recorded_around_beam_search(run):
    with regard.record(run.model) as maps:
        run.translate(["Please buy two apples."], decoding={"name": "beam", "beam_width": 3})
    (recorded,) = maps.values()
    assert {call.shape[0] for call in recorded.calls} == {1, 3}
    assert all(torch.allclose(call.sum(dim=-1), torch.ones(())) for call in recorded.calls)
    with regard.record(run.model) as maps:
        run.translate(["Please buy two apples."], decoding="greedy")
    assert next(iter(maps.values())).weights.shape[0] == 1
