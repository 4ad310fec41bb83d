"""Image generation: new images, completion, upscaling, metrics, inspection and invalid requests."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import ConfigError, DataError
from regard.data.images.resize import to_levels
from regard.models import image_transformer
from regard.tasks import image_generation
from regard.tasks.image_generation import Config, Options
from regard.tasks.image_generation import task as task_module

TINY = replace(image_transformer.TINY, query_block=(4, 4), memory_block=(2, 2))


def prepared(config, folder):
    image_generation.build(config).save(folder)
    task = image_generation.load(config, folder)
    torch.manual_seed(0)
    return task, image_transformer.build(TINY, task.spec).eval()


@pytest.fixture(scope="module")
def generating(tmp_path_factory):
    return prepared(image_generation.TINY, tmp_path_factory.mktemp("generating"))


@pytest.fixture(scope="module")
def upscaling(tmp_path_factory):
    return prepared(replace(image_generation.TINY, low_resolution=(4, 4)), tmp_path_factory.mktemp("upscaling"))


def predict(pair, image=None, **options):
    task, model = pair
    ((prediction,),) = task.predict(model, [image], Options(**options), None)
    return prediction


def saved(path, height, width):
    Image.fromarray(np.arange(height * width, dtype=np.uint8).reshape(height, width)).save(path)
    return str(path)


def test_images_are_generated_without_an_input(generating, tmp_path):
    answer = predict(generating, n=3, class_="7")
    assert answer.value.shape == (3, 8, 8, 1) and answer.text == "3 images of 8x8 of class 7"
    repeated, fewer, reseeded = (
        predict(generating, n=3, class_="7"),
        predict(generating, n=2, class_="7"),
        predict(generating, n=3, seed=2),
    )
    assert np.array_equal(answer.value, repeated.value) and not np.array_equal(answer.value, reseeded.value)
    assert np.array_equal(answer.value[:2], fewer.value)  # an image depends on its index and the seed only
    (tmp_path / "x.png").write_bytes(answer.render(".png"))
    with Image.open(tmp_path / "x.png") as sheet:
        assert sheet.size == (17 * 18, 17 * 18)  # two by two with a gap, large enough to see single pixels
    assert answer.render(".txt").decode().count("\n") == 17


def test_temperature_zero_takes_the_most_likely_level(generating):
    first, second = (predict(generating, n=1, temperature=0.0, seed=seed).value for seed in (1, 2))
    assert np.array_equal(first, second)


def test_the_setting_for_another_verb_is_named(generating):
    assert generating[0].verb_settings == {"upscale": "data.low_resolution=[2, 2]"}


def test_identical_images_are_refused(generating):
    with pytest.raises(ConfigError, match=r"^n=4: all images are identical at temperature=0; use n=1$"):
        Options(n=4, temperature=0.0)
    assert predict(generating, temperature=0.0).value.shape == (1, 8, 8, 1)


def test_the_rows_of_the_input_are_kept(generating, tmp_path):
    task, _ = generating
    image = task.parse_input(task.examples[0])
    answer = predict(generating, image, rows=3)
    assert np.array_equal(answer.value[0, :3], image.pixels[:3]) and answer.value.shape == (1, 8, 8, 1)
    assert answer.text == "example.png made to 8x8"
    top = task.parse_input(saved(tmp_path / "top.png", 2, 8))
    assert np.array_equal(to_levels(predict(generating, top).value[0, :2], 17), to_levels(top.pixels, 17))


def test_a_region_of_the_input_is_generated(generating):
    task, _ = generating
    image = task.parse_input(task.examples[0])
    images = [predict(generating, image, region="0.25,0.5,0.75,0.75", seed=seed).value[0] for seed in (1, 2)]
    for pixels in images:
        changed = np.argwhere(pixels[..., 0] != image.pixels[..., 0])
        assert len(changed) and changed.min(axis=0).tolist() >= [4, 2] and changed[:, 0].max() < 6
        assert changed[:, 1].min() >= 2 and changed[:, 1].max() < 6
    assert not np.array_equal(*images)
    with pytest.raises(ConfigError, match=r"^region='1,0,0,1': give left,top,right,bottom as fractions of the image"):
        Options(region="1,0,0,1")


def test_guidance_needs_a_class(generating, tmp_path):
    assert predict(generating, n=1, class_="3", guidance=2.0).value.shape == (1, 8, 8, 1)
    with pytest.raises(ConfigError, match=r"^guidance=2.0 strengthens the condition on a class; give class_=…$"):
        Options(guidance=2.0)
    with pytest.raises(ConfigError, match=r"^guidance=0.5 must be at least 1 and finite; 1 is the class alone$"):
        Options(class_="3", guidance=0.5)
    always = prepared(replace(image_generation.TINY, condition_dropout=0.0), tmp_path)
    with pytest.raises(DataError, match=r"^guidance=2.0: the model was always trained with a class, .*dropout=0.1$"):
        predict(always, class_="3", guidance=2.0)


def test_a_narrow_image_is_resized_to_the_width_of_the_canvas(generating, tmp_path):
    answer = predict(generating, generating[0].parse_input(saved(tmp_path / "narrow.png", 2, 4)))
    assert answer.remarks == ("narrow.png: 2x4 pixels: resized to 4x8",) and answer.text == "narrow.png made to 8x8"


@pytest.mark.parametrize(
    ("size", "rows", "message"),
    [
        ((9, 8), 0, r"big\.png: 9x8 pixels, larger than the canvas of 8x8; scale it down first$"),
        ((4, 8), 5, r"big\.png: cannot keep 5 rows of an image of 4; give a smaller rows=…$"),
    ],
)
def test_an_image_that_does_not_fit_is_refused(generating, tmp_path, size, rows, message):
    with pytest.raises(DataError, match=message):
        predict(generating, generating[0].parse_input(saved(tmp_path / "big.png", *size)), rows=rows)


def test_a_class_that_does_not_exist_is_refused(generating, tmp_path):
    with pytest.raises(DataError, match=r"^the model does not know the class '77'; did you mean '7'\?$"):
        predict(generating, class_="77")
    without = prepared(replace(image_generation.TINY, class_conditional=False), tmp_path)
    with pytest.raises(DataError, match=r"does not know the class '7'; it was trained without classes$"):
        predict(without, class_="7")


def test_a_small_image_is_upscaled(upscaling, tmp_path):
    task, _ = upscaling
    image = task.parse_input(task.examples[0])
    assert image.pixels.shape == (4, 4, 1)
    answer = predict(upscaling, image)
    assert answer.value.shape == (1, 8, 8, 1) and answer.text == "example.png made to 8x8"
    assert np.array_equal(
        answer.value, predict(upscaling, image, seed=9).value
    )  # the most likely levels, unless a temperature is given
    resized = predict(upscaling, task.parse_input(saved(tmp_path / "other.png", 3, 4)))
    assert resized.remarks == ("other.png: 3x4 pixels: resized to 4x4",) and resized.value.shape == (1, 8, 8, 1)
    large = predict(upscaling, task.parse_input(saved(tmp_path / "large.png", 8, 8)))
    assert large.remarks == ("large.png: 8x8 pixels, as the result has: made small first",)
    assert task.verbs == ("upscale",) and set(task.verb_settings) == {"generate", "complete"}
    with pytest.raises(DataError, match=r"^this run upscales images; give the path of a small image$"):
        predict(upscaling)


def test_a_large_image_is_upscaled_in_tiles(upscaling, tmp_path):
    task, _ = upscaling
    answer = predict(upscaling, task.parse_input(saved(tmp_path / "photo.png", 10, 7)))
    assert answer.value.shape == (1, 20, 14, 1) and answer.text == "photo.png made to 20x14"
    assert answer.remarks == ("photo.png: upscaled in 6 tiles of 4x4 pixels",)
    narrow = predict(upscaling, task.parse_input(saved(tmp_path / "narrow.png", 2, 5)))
    assert narrow.value.shape == (1, 8, 20, 1)
    message = (
        r"^big\.png: 100x120 pixels are 1,320 tiles of 4x4, more than 256; scale it down first, for example to 49x49"
    )
    with pytest.raises(DataError, match=message):
        predict(upscaling, task.parse_input(saved(tmp_path / "big.png", 100, 120)))


def test_upscaling_is_compared_with_bicubic_interpolation(upscaling, monkeypatch):
    task, model = upscaling
    monkeypatch.setattr(task_module, "MAX_UPSCALED_IMAGES", 2)
    scores = task.extra_metrics(model, "valid", None)
    assert set(scores) == {
        "histogram_bits",
        *(f"{way}{name}" for way in ("", "mean_", "bicubic_") for name in ("psnr", "ssim")),
    }
    assert scores["bicubic_psnr"] > scores["psnr"] > 0  # the model is untrained


def test_bits_of_a_uniform_model(generating):
    """With equal probabilities, bits are log2 of the number of levels for any image."""
    task, _ = generating
    model = image_transformer.build(TINY, task.spec)
    for readout in model.readout.each:
        torch.nn.init.zeros_(readout.weight)
    scores = task.evaluate(model, "valid", None)
    assert scores["bits"] == pytest.approx(math.log2(17), abs=1e-5)
    assert scores["nats"] == pytest.approx(64 * math.log(17), rel=1e-5)
    assert task.signatures()["bits"].startswith("-log2 p per channel of a pixel, 17 equally spaced levels of 0 … 255")


def test_random_rounding_is_the_same_in_every_evaluation(tmp_path):
    config = replace(image_generation.TINY, intensity_levels=2, rounding="random", class_conditional=False)
    task, model = prepared(config, tmp_path)
    assert task.evaluate(model, "valid", None) == task.evaluate(model, "valid", None)
    first, second = (task.collate(np.arange(8)).pixels for _ in range(2))
    assert not first.equal(second) and set(first.unique().tolist()) == {0, 1}


def test_the_page_has_blocks_and_visible_positions(generating):
    task, model = generating
    inspectable = task.inspect(model, task.parse_input(task.examples[0]), Options(), None)
    extra = inspectable.extra["canvas"]
    assert inspectable.views == ("canvas",) and len(extra["blocks"]) == len(extra["memories"]) == 4
    assert len(inspectable.axes["made"].items) == len(extra["pixels"]) == 64
    unconditional = task.inspect(model, None, Options(class_="3"), None)
    assert unconditional.title == "an image of 8x8 of class 3"


def test_the_page_of_upscaling_has_the_small_image_bicubic_and_the_truth(upscaling, tmp_path):
    task, model = upscaling
    truth = task.parse_input(saved(tmp_path / "large.png", 8, 8))
    assert np.array_equal(
        task.inspect(model, truth, Options(), None).extra["canvas"]["truth"], truth.pixels.reshape(-1, 1)
    )
    extra = task.inspect(model, task.parse_input(task.examples[0]), Options(), None).extra["canvas"]
    assert len(extra["small"]["pixels"]) == 16 and len(extra["bicubic"]) == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, r"^batch_size=0 must be at least 1$"),
        ({"low_resolution": (-1, 4)}, r"^low_resolution=\[-1, 4\] must be at least 0$"),
        ({"condition_dropout": 1.5}, r"^condition_dropout=1\.5 must be between 0 and 1$"),
        ({"intensity_levels": 1}, r"levels=1"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_the_low_resolution_must_divide_the_image_size():
    with pytest.raises(ConfigError, match=r"^low_resolution=\[3, 3\]: must divide the image size 8x8$"):
        image_generation.build(replace(image_generation.TINY, low_resolution=(3, 3)))


def test_invalid_options_are_refused():
    with pytest.raises(ConfigError, match=r"^n=0 must be at least 1$"):
        Options(n=0)
