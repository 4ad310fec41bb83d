"""The verbs for images on the command line and the files they write: generate, complete, upscale, classify, detect."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from run_cli import call

from regard.training import recipe as recipes
from regard.training import train as runs

SHORT = ["training.steps=1", "training.evaluation.every=1"]
SMALL = ["model.layers=1", "model.dim=16", "data.batch_size=8"]
RUNS = {
    "image_generation": ["data.valid=8", "model.query_block=[4, 4]"],
    "upscaling": ["data.valid=8", "model.query_block=[4, 4]", "data.low_resolution=[4, 4]"],
    "image_classification": [],
    "detection": ["data.scenes=8", "data.height=32", "model.decoder_layers=1"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder of runs that were trained for one step, by name."""
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in RUNS.items():
        task = "image_generation" if name == "upscaling" else name
        runs.train(recipes.read(task, settings=[*SHORT, *SMALL, *settings]), folder / name)
    return folder


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "x.png"
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(path)
    return path


def test_images_of_a_class_are_written_as_one_grid(trained, tmp_path, capsys):
    call(
        "generate",
        trained / "image_generation",
        "--class",
        "7",
        "--n",
        "4",
        "--seed",
        "2",
        "--out",
        tmp_path / "grid.png",
    )
    assert "4 images of 8x8 of class 7" in capsys.readouterr().out
    with Image.open(tmp_path / "grid.png") as grid:
        assert grid.size[0] == grid.size[1] > 17


def test_an_image_is_completed(trained, image, tmp_path):
    call(
        "complete",
        trained / "image_generation",
        image,
        "--rows",
        "3",
        "--scale",
        "1",
        "--out",
        tmp_path / "completed.png",
    )
    with Image.open(tmp_path / "completed.png") as completed:
        levels = np.rint(np.asarray(completed)[:3].astype(int) * 16 / 255)
        assert np.array_equal(levels, np.rint(np.arange(24).reshape(3, 8) * 16 / 255))


def test_an_image_is_upscaled(trained, image, tmp_path, capsys):
    call("upscale", trained / "upscaling", image, "--scale", "1", "--out", tmp_path / "large.png")
    assert "made small first" in "".join(capsys.readouterr())
    with Image.open(tmp_path / "large.png") as large:
        assert large.size == (8, 8)


def test_an_image_is_classified(trained, image, capsys):
    call("classify", trained / "image_classification", image, "--n", "2")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_boxes_are_drawn(trained, image, tmp_path):
    call("detect", trained / "detection", image, "--threshold", "0", "--out", tmp_path / "boxes.png")
    with Image.open(tmp_path / "boxes.png") as boxes:
        assert boxes.width == 320 and boxes.height > 320  # the legend is below the image
        assert boxes.getpixel((319, boxes.height - 1)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("verb", "run", "verb_of_run"), [("complete", "upscaling", "upscale"), ("upscale", "image_generation", "generate")]
)
def test_the_error_names_the_verb_of_the_run(trained, image, capsys, *, verb, run, verb_of_run):
    with pytest.raises(SystemExit):
        call(verb, trained / run, image)
    message = f"{run} was trained for image_generation, whose verb is {verb_of_run}; regard {verb_of_run} "
    assert message in capsys.readouterr().err
