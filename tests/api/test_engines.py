"""Engines of one run give the same answers; what an engine cannot do is one line."""

import pytest
import torch

import regard
from regard.core.errors import ConfigError, RegardError
from regard.training import recipe as recipes
from regard.training.run import train

SMALL = ["model.layers=1", "model.dim=32", "model.hidden=32", "model.heads=2", "data.pairs=300", "data.vocabulary=300"]
SHORT = ["training.steps=3", "training.evaluation.every=3", "model.dropout=0.0"]
TEXTS = ["The cook is reading a book.", "", "Please buy two apples.", "The teacher sleeps."]


def trained(folder, *settings):
    chosen = recipes.read("translation", settings=[*SHORT, *settings])
    return train(chosen, folder).folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "small", "model=transformer", *SMALL)


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_ctranslate2_gives_the_same_answers(folder, decoding):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    native, other = (
        regard.load(folder, [f"decoding={decoding}"], engine=engine).candidates(TEXTS)
        for engine in ("native", "ctranslate2")
    )
    assert [found[0][0] for found in other] == [found[0][0] for found in native]
    assert other[1] == [("", 0.0)]
    assert len(list(folder.glob("ctranslate2-*"))) == 1  # exported once


def test_eight_bits_translate(folder):
    found = regard.load(folder, engine="int8").translate(TEXTS)
    assert len(found) == len(TEXTS) and found[1] == ""


def test_ctranslate2_does_not_sample(folder):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    with pytest.raises(ConfigError, match="engine ctranslate2 searches by greedy or beam, not by sample"):
        regard.load(folder, ["decoding=sample"], engine="ctranslate2").translate(TEXTS)


def test_other_models_have_the_native_engine(tmp_path):
    torch.manual_seed(0)
    small = ["model.dim=16", "model.embedding=8", "data.pairs=300", "data.vocabulary=300"]
    folder = trained(tmp_path / "run", "model=bahdanau", *small)
    assert len(regard.load(folder).translate(TEXTS)) == len(TEXTS)
    for engine, message in (("int8", "engine int8 is for the Transformer"), ("ctranslate2", "has no Bahdanau")):
        with pytest.raises(RegardError, match=message):
            regard.load(folder, engine=engine).translate(TEXTS)
