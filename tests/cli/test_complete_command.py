"""The verbs of images on the command line: generate, complete, upscale, classify, detect, with the files they write."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from run_cli import call

from regard.training import recipe as recipes
from regard.training import train as runs

SHORT = ["training.steps=1", "training.evaluation.every=1"]
SMALL = ["model.layers=1", "model.dim=16", "data.batch_size=8"]
KINDS = {
    "image_generation": ["data.valid=8", "model.query_block=[4, 4]"],
    "enlarging": ["data.valid=8", "model.query_block=[4, 4]", "data.low_resolution=[4, 4]"],
    "image_classification": [],
    "detection": ["data.scenes=8", "data.height=32", "model.decoder_layers=1"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of one step, by what they are for."""
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in KINDS.items():
        task = "image_generation" if name == "enlarging" else name
        runs.train(recipes.read(task, settings=[*SHORT, *SMALL, *settings]), folder / name)
    return folder


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "x.png"
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(path)
    return path


def test_images_of_a_class_are_written_on_one_sheet(trained, tmp_path, capsys):
    call("generate", trained / "image_generation", "--class", "7", "--n", "4", "--seed", "2", "--out", tmp_path / "grid.png")
    assert "4 images of 8x8 of class 7" in capsys.readouterr().out
    with Image.open(tmp_path / "grid.png") as sheet:
        assert sheet.size[0] == sheet.size[1] > 17


def test_an_image_is_completed(trained, image, tmp_path):
    call("complete", trained / "image_generation", image, "--rows", "3", "--scale", "1", "--out", tmp_path / "whole.png")
    with Image.open(tmp_path / "whole.png") as whole:
        levels = np.rint(np.asarray(whole)[:3].astype(int) * 16 / 255)
        assert np.array_equal(levels, np.rint(np.arange(24).reshape(3, 8) * 16 / 255))


def test_an_image_is_enlarged(trained, image, tmp_path, capsys):
    call("upscale", trained / "enlarging", image, "--scale", "1", "--out", tmp_path / "large.png")
    assert "made small first" in "".join(capsys.readouterr())
    with Image.open(tmp_path / "large.png") as large:
        assert large.size == (8, 8)


def test_an_image_is_classified(trained, image, capsys):
    call("classify", trained / "image_classification", image, "--n", "2")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_boxes_are_drawn(trained, image, tmp_path):
    call("detect", trained / "detection", image, "--least", "0", "--out", tmp_path / "boxes.png")
    with Image.open(tmp_path / "boxes.png") as boxes:
        assert boxes.size == (320, 320)


@pytest.mark.parametrize("asked", ["complete enlarging upscale", "upscale images generate"])
def test_a_run_says_which_verb_it_has(trained, image, capsys, asked):
    verb, run, own = asked.split()
    with pytest.raises(SystemExit):
        call(verb, trained / run, image)
    assert f"{run} was trained for images, whose verb is {own}; regard {own} " in capsys.readouterr().err
