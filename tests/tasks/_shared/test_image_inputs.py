"""Input images as paths, Pillow images and NumPy arrays, in every task that reads images."""

import numpy as np
import pytest

from regard.api.verb_methods import as_list
from regard.core.errors import ConfigError, DataError
from regard.core.task import Task
from regard.data.images.image_files import to_image
from regard.tasks._shared import image_inputs
from regard.tasks.captioning.task import Captioning
from regard.tasks.detection.task import Detection
from regard.tasks.image_classification.task import ImageClassification
from regard.tasks.image_generation.task import ImageGeneration

PIXELS = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)


@pytest.mark.parametrize(
    "source", [PIXELS, to_image(PIXELS), PIXELS.astype(np.int64), to_image(PIXELS).convert("RGBA")], ids=type
)
def test_objects_are_read_like_files(tmp_path, source):
    to_image(PIXELS).save(tmp_path / "x.png")
    expected = image_inputs.read_image(str(tmp_path / "x.png"), 3).pixels
    assert (image_inputs.read_image(source, 3).pixels == expected).all()
    assert image_inputs.read_image(source, 1).pixels.shape == (7, 5, 1)


def test_floats_and_grey_arrays_are_converted():
    grey = np.linspace(0, 1, 20).reshape(4, 5)
    image = image_inputs.read_image(grey, 3)
    assert image.pixels.shape == (4, 5, 3) and image.pixels.max() == 255


def test_arrays_that_are_no_image_are_errors():
    for array in (np.zeros(5), np.zeros((1, 2, 3, 3)), np.zeros((0, 4))):
        with pytest.raises(DataError, match=r"is not an image; give \(height, width\) or \(height, width, 3\)"):
            image_inputs.read_image(array, 3)
    with pytest.raises(DataError, match=r"has 5 channels in its last axis; give 1 \(grey\) or 3 \(colour\)"):
        image_inputs.read_image(np.zeros((4, 4, 5)), 3)
    with pytest.raises(ConfigError, match=r"not one array of shape \(7, 5, 3\); write classify\(\[array\]\)"):
        as_list(PIXELS, "classify")


@pytest.mark.parametrize("task", [Captioning, Detection, ImageClassification, ImageGeneration])
def test_every_image_task_parses_objects(task):
    assert task.parse_object is not Task.parse_object
