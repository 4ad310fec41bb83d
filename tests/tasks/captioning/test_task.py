"""The captioning task: batches, augmentation, metrics, settings and errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import ConfigError
from regard.decoding.strategy import build as build_strategy
from regard.models import captioner
from regard.tasks import captioning
from regard.tasks._shared import batch_search
from regard.tasks._shared.image_inputs import InputImage
from regard.tasks.captioning import TINY, Config, Options, metrics
from regard.tasks.captioning import task as task_module

GREEDY = build_strategy("greedy")


@pytest.fixture(scope="module")
def task():
    return captioning.build(TINY)


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return captioner.build(captioner.TINY, task.spec)


def test_metrics_of_scenes(task, model, monkeypatch):
    monkeypatch.setattr(task_module, "NUM_EXTRA_SCENES", 8)
    monkeypatch.setattr(metrics, "extras_installed", lambda: False)
    scores = task.evaluate(model, "valid", GREEDY)
    assert set(scores) == {"chrf", "bleu1", "bleu2", "bleu3", "bleu4", "exact", "pointing", "loss"}
    without_attention = captioner.build(replace(captioner.TINY, attention="none"), task.spec)
    assert "pointing" not in task.evaluate(without_attention, "valid", GREEDY)
    assert {"more_exact", "more_bleu4"} <= set(task.extra_metrics(model, "valid", GREEDY))
    assert task.target_metric.metric == "exact"
    assert "scenes of 3 objects" in task.signatures()["more_exact, more_bleu4"]


def test_every_word_counts_once(task, model):
    batch = task.collate(np.arange(4))
    texts = [text for captions in task.collection.split("train").captions[:4] for text in captions]
    assert task.loss(model, batch).count == sum(len(text.split()) + 1 for text in texts)


def test_images_are_flipped_at_random():
    task = captioning.build(replace(TINY, flip=0.5))
    examples = np.arange(12)
    originals = task.image_encoder.encode_rows(task.collection.split("train").pixels, examples)
    torch.manual_seed(0)
    pairs = list(zip(task.collate(examples).images, originals, strict=True))
    flipped = [torch.equal(image, original.flip(2)) for image, original in pairs]
    unchanged = [torch.equal(image, original) for image, original in pairs]
    assert any(flipped) and any(unchanged) and all(a != b for a, b in zip(flipped, unchanged, strict=True))


def test_images_are_shifted_by_a_few_pixels(task):
    shifted = captioning.build(replace(TINY, crop=2)).collate(np.arange(8)).images
    originals = task.collate(np.arange(8)).images
    assert shifted.shape == originals.shape and not torch.equal(shifted, originals)
    padded = torch.nn.functional.pad(originals, (2, 2, 2, 2), value=-1.0)
    for image, original in zip(shifted, padded, strict=True):
        assert any(torch.equal(image, original[:, y : y + 24, x : x + 24]) for y in range(5) for x in range(5))


def test_images_are_converted_to_grey_at_random():
    task = captioning.build(replace(TINY, grey=0.5))
    torch.manual_seed(0)
    images = task.collate(np.arange(12)).images
    assert {bool((image == image[:1]).all()) for image in images} == {True, False}


def test_captions_that_are_too_long_are_counted_and_left_out():
    task = captioning.build(replace(TINY, max_length=6))
    captions = [text for texts in task.collection.split("train").captions for text in texts]
    num_long = sum(len(text.split()) >= 6 for text in captions)
    assert task.data_warnings() == [
        f"{num_long} of {len(captions)} training captions are longer than 6 tokens: left out"
    ]
    with pytest.raises(ConfigError, match="no caption is shorter than max_length=3 tokens; raise it"):
        captioning.build(replace(TINY, max_length=3)).epoch_batches(0, 1)


def test_korean_scenes():
    korean = captioning.build(replace(TINY, language="ko"))
    assert "원" in "".join(korean.vocabulary.token_text(token) for token in range(korean.spec.vocab_size))


def test_the_target_metric_of_files_is_bleu(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    for i in range(5):
        image = np.random.default_rng(i).integers(0, 255, (10, 10, 3), dtype=np.uint8)
        Image.fromarray(image).save(tmp_path / "data" / f"{i}.png")
    rows = "".join(f"{i}.png\ta picture of {i}\n{i}.png\tnumber {i}\n" for i in range(5))
    (tmp_path / "data" / "captions.tsv").write_text(rows)
    task = captioning.build(replace(TINY, path=tmp_path / "data", height=8, width=8))
    assert task.target_metric.metric == "bleu4" and any("8x8" in warning for warning in task.data_warnings())
    model = captioner.build(captioner.TINY, task.spec)
    assert set(task.evaluate(model, "test", GREEDY)) == {"chrf", "bleu1", "bleu2", "bleu3", "bleu4", "loss"}
    assert "more_exact" not in task.extra_metrics(model, "test", GREEDY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"smoothing": 1.0}, "smoothing=1.0 must be at least 0 and below 1"),
        ({"crop": -1}, "crop=-1 must be at least 0"),
        ({"flip": -0.5}, "flip=-0.5 must be at least 0 and below 1"),
        ({"dataset": "photos"}, "'photos'"),
        ({"backbone": "resnet18"}, "backbone='resnet18' needs its weights"),
    ],
)
def test_impossible_settings_are_errors(change, message):
    with pytest.raises(ConfigError, match=message):
        Config(**change)


@pytest.fixture(scope="module")
def image(task):
    return InputImage("x.png", task.collection.split("valid").images(np.arange(1))[0], ())


def test_the_first_caption_does_not_depend_on_n(task, model, image):
    ((first,),) = task.predict(model, [image], Options(), GREEDY)
    (predictions,) = task.predict(model, [image], Options(n=7), GREEDY)
    assert predictions[0].text == first.text and 1 < len(predictions) <= 7
    assert len({prediction.text for prediction in predictions}) == len(predictions)


def test_search_batches_of_wide_beams_are_smaller(task, model, monkeypatch):
    monkeypatch.setattr(batch_search, "MAX_HYPOTHESES", 8)
    sizes, encode = [], type(task.image_encoder).__call__

    def encode_and_count(self, pixels):
        sizes.append(len(pixels))
        return encode(self, pixels)

    monkeypatch.setattr(type(task.image_encoder), "__call__", encode_and_count)
    pixels = task.collection.split("valid").images(np.arange(6))
    hypotheses = task.search_captions(model, pixels, build_strategy("beam", beam_width=4, nbest=4))
    assert sizes == [2, 2, 2] and [len(n_best) for n_best in hypotheses] == [4] * 6


def test_impossible_requests_are_errors(task, model, image):
    with pytest.raises(ConfigError, match=r"^n=0 must be at least 1$"):
        Options(n=0)
    with pytest.raises(ConfigError, match=r"^\w+=1000000 .* at most 1000$"):
        task.predict(model, [image], Options(n=1_000_000), GREEDY)
    assert Options(occlude="0,0,0.5,1").box() == (0, 0, 0.5, 1)
