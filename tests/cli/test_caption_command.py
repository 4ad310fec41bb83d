"""`regard caption`: train on images with captions, caption new ones, draw the attention."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from run_cli import call

SMALL = ["model.dim=16", "model.embedding=8", "model.feature_dim=8", "model.stride=4", "data.batch_size=4"]
SHORT = ["training.steps=2", "training.evaluation.every=2", "decoding=greedy"]
SCENES = ["data.scenes=12", "data.height=24", "data.width=24", "data.objects_per_scene=[1, 1]", "data.max_length=8"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "scenes"
    call("train", "captioning", *SMALL, *SHORT, *SCENES, "--out", folder)
    return folder


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "x.png"
    Image.fromarray(np.zeros((40, 40, 4), np.uint8), "RGBA").save(path)
    return path


def test_an_image_is_captioned_and_drawn(run, image, tmp_path, capsys):
    call("caption", run, image, "--json")
    output = json.loads(capsys.readouterr().out)
    assert output["input"] == str(image) and len(output["predictions"]) == 1
    remarks = " ".join(output["predictions"][0]["remarks"])
    assert "transparent: placed on a white background; 40x40 pixels: resized to 24x24" in remarks
    call("caption", run, run / "example.png", "n=2", "--out", tmp_path / "overlay.png")
    assert "wrote" in capsys.readouterr().out
    assert Image.open(io.BytesIO((tmp_path / "overlay-2.png").read_bytes())).width > 100


def test_a_part_can_be_occluded(run, capsys):
    call("caption", run, run / "example.png", "occlude=0,0,1,1", "--json")
    occluded = json.loads(capsys.readouterr().out)["predictions"][0]["score"]
    call("caption", run, run / "example.png", "--json")
    assert json.loads(capsys.readouterr().out)["predictions"][0]["score"] != occluded
    with pytest.raises(SystemExit):
        call("caption", run, run / "example.png", "occlude=0,0,2,1")
    assert "occlude='0,0,2,1': give left,top,right,bottom as fractions of the image" in capsys.readouterr().err


def test_a_captioning_run_is_evaluated(run, capsys):
    call("evaluate", run)
    printed = capsys.readouterr().out
    for name in ("bleu1", "bleu4", "exact", "pointing", "cider", "meteor", "more_exact"):
        assert name in printed


@pytest.mark.parametrize(
    ("name", "message"), [("gone.png", "no such file"), ("bad.png", "not an image that Pillow can read")]
)
def test_an_image_that_cannot_be_read_is_named(run, tmp_path, capsys, name, message):
    if name == "bad.png":
        (tmp_path / name).write_text("not an image")
    with pytest.raises(SystemExit):
        call("caption", run, tmp_path / name)
    assert message in capsys.readouterr().err
