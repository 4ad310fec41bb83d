"""Images that are made: from nothing, around what is given, from smaller ones; and what is said of bad requests."""

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

TINY = replace(image_transformer.TINY, query=(4, 4), memory=(2, 2))


def prepared(config, folder):
    image_generation.build(config).save(folder)
    task = image_generation.load(config, folder)
    torch.manual_seed(0)
    return task, image_transformer.build(TINY, task.spec).eval()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return prepared(image_generation.TINY, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def enlarged(tmp_path_factory):
    return prepared(replace(image_generation.TINY, small=(4, 4)), tmp_path_factory.mktemp("enlarged"))


def ask(pair, given=None, **options):
    task, model = pair
    ((answer,),) = task.answer(model, [given], Options(**options), None)
    return answer


def saved(path, height, width):
    Image.fromarray(np.arange(height * width, dtype=np.uint8).reshape(height, width)).save(path)
    return str(path)


def test_images_are_made_from_nothing(made, tmp_path):
    answer = ask(made, count=3, class_="7")
    assert answer.value.shape == (3, 8, 8, 1) and answer.text == "3 images of 8x8 of class 7"
    again, fewer, others = ask(made, count=3, class_="7"), ask(made, count=2, class_="7"), ask(made, count=3, seed=2)
    assert np.array_equal(answer.value, again.value) and not np.array_equal(answer.value, others.value)
    assert np.array_equal(answer.value[:2], fewer.value)  # an image hangs on its number and the seed alone
    (tmp_path / "x.png").write_bytes(answer.render(".png"))
    with Image.open(tmp_path / "x.png") as sheet:
        assert sheet.size == (17 * 18, 17 * 18)  # two by two with a gap, so large that pixels are seen
    assert answer.render(".txt").decode().count("\n") == 17


def test_without_heat_the_likeliest_level_is_taken(made):
    first, second = (ask(made, count=1, temperature=0.0, seed=seed).value for seed in (1, 2))
    assert np.array_equal(first, second)


def test_what_is_given_is_kept(made, tmp_path):
    task, _ = made
    given = task.read(task.examples[0])
    answer = ask(made, given, rows=3)
    assert np.array_equal(answer.value[0, :3], given.pixels[:3]) and answer.value.shape == (1, 8, 8, 1)
    assert answer.text == "example.png made to 8x8"
    top = task.read(saved(tmp_path / "top.png", 2, 8))
    assert np.array_equal(to_levels(ask(made, top).value[0, :2], 17), to_levels(top.pixels, 17))


def test_a_narrow_image_is_made_as_wide_as_the_canvas(made, tmp_path):
    answer = ask(made, made[0].read(saved(tmp_path / "narrow.png", 2, 4)))
    assert answer.remarks == ("narrow.png: 2x4 pixels: brought to 4x8",) and answer.text == "narrow.png made to 8x8"


@pytest.mark.parametrize(
    ("size", "rows", "message"),
    [
        ((9, 8), 0, r"big\.png: 9x8 pixels, larger than the canvas of 8x8; scale it down first$"),
        ((4, 8), 5, r"big\.png: 5 rows are to be kept, but it has 4$"),
    ],
)
def test_a_seed_that_does_not_fit_is_refused(made, tmp_path, size, rows, message):
    with pytest.raises(DataError, match=message):
        ask(made, made[0].read(saved(tmp_path / "big.png", *size)), rows=rows)


def test_a_class_that_does_not_exist_is_refused(made, tmp_path):
    with pytest.raises(DataError, match=r"^the model does not know the class '77'; did you mean '7'\?$"):
        ask(made, class_="77")
    without = prepared(replace(image_generation.TINY, classes="ignored"), tmp_path)
    with pytest.raises(DataError, match=r"does not know the class '7'; it was trained without classes$"):
        ask(without, class_="7")


def test_a_small_image_is_enlarged(enlarged, tmp_path):
    task, _ = enlarged
    given = task.read(task.examples[0])
    assert given.pixels.shape == (4, 4, 1)
    answer = ask(enlarged, given)
    assert answer.value.shape == (1, 8, 8, 1) and answer.text == "example.png made to 8x8"
    assert np.array_equal(answer.value, ask(enlarged, given, seed=9).value)  # the likeliest, unless heat is asked for
    other = ask(enlarged, task.read(saved(tmp_path / "other.png", 6, 6)))
    assert other.remarks == ("other.png: 6x6 pixels: brought to 4x4",)
    large = ask(enlarged, task.read(saved(tmp_path / "large.png", 8, 8)))
    assert large.remarks == ("large.png: 8x8 pixels, as the result has: made small first",)
    assert task.verbs == ("upscale",)
    with pytest.raises(DataError, match=r"^this run enlarges images; give the path of a small one$"):
        ask(enlarged)


def test_enlarging_is_scored_beside_bicubic(enlarged, monkeypatch):
    task, model = enlarged
    monkeypatch.setattr(image_generation, "ENLARGED", 2)
    scores = task.report(model, "valid", None)
    assert set(scores) == {"histogram_bits", "psnr", "ssim", "bicubic_psnr", "bicubic_ssim"}
    assert scores["bicubic_psnr"] > scores["psnr"] > 0  # the model knows nothing yet


def test_bits_of_a_model_that_knows_nothing(made):
    """All levels alike: log2 of their number, whatever the images are."""
    task, _ = made
    model = image_transformer.build(TINY, task.sizes)
    for readout in model.readout.each:
        torch.nn.init.zeros_(readout.weight)
    scores = task.evaluate(model, "valid", None)
    assert scores["bits"] == pytest.approx(math.log2(17), abs=1e-5)
    assert scores["nats"] == pytest.approx(64 * math.log(17), rel=1e-5)
    assert task.signatures()["bits"].startswith("-log2 p per channel of a pixel, 17 equally spaced levels of 0 … 255")


def test_levels_drawn_at_random_are_drawn_once_for_a_split(tmp_path):
    config = replace(image_generation.TINY, levels=2, rounding="random", classes="ignored")
    task, model = prepared(config, tmp_path)
    assert task.evaluate(model, "valid", None) == task.evaluate(model, "valid", None)
    first, second = (task.collate(np.arange(8)).pixels for _ in range(2))
    assert not first.equal(second) and set(first.unique().tolist()) == {0, 1}


def test_a_page_shows_blocks_and_what_they_see(made):
    task, model = made
    shown = task.show(model, task.read(task.examples[0]), Options(), None)
    extra = shown.extra["canvas"]
    assert shown.views == ("canvas",) and len(extra["blocks"]) == len(extra["memories"]) == 4
    assert len(shown.axes["made"].items) == len(extra["pixels"]) == 64
    made_of_nothing = task.show(model, None, Options(class_="3"), None)
    assert made_of_nothing.title == "an image of 8x8 of class 3"


def test_a_page_of_enlarging_shows_the_small_image_bicubic_and_the_truth(enlarged, tmp_path):
    task, model = enlarged
    truth = task.read(saved(tmp_path / "large.png", 8, 8))
    assert np.array_equal(
        task.show(model, truth, Options(), None).extra["canvas"]["truth"], truth.pixels.reshape(-1, 1)
    )
    extra = task.show(model, task.read(task.examples[0]), Options(), None).extra["canvas"]
    assert len(extra["small"]["pixels"]) == 16 and len(extra["bicubic"]) == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 0}, r"^rows and valid must be at least 1, small at least 0$"),
        ({"drop": 1.5}, r"^drop=1\.5, flip=0\.0: shares lie in 0 … 1$"),
        ({"levels": 1}, r"^levels=1: a pixel has 2 … 256 levels of brightness$"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_an_image_must_be_cut_into_whole_squares():
    with pytest.raises(ConfigError, match=r"^small=\[3, 3\]: an image of 8x8 cannot be cut into so many squares$"):
        image_generation.build(replace(image_generation.TINY, small=(3, 3)))


def test_requests_that_make_no_sense():
    with pytest.raises(ConfigError, match=r"^count=0, rows=0, scale=0: ask for one image at least$"):
        Options(n=0)
