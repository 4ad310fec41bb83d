"""Captioning as a task: what it reads, says, refuses, and measures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import ConfigError
from regard.decoding.strategy import build as decoder
from regard.models import captioner
from regard.tasks import captioning
from regard.tasks._shared.image_inputs import InputImage
from regard.tasks.captioning import TINY, Config, Options


@pytest.fixture(scope="module")
def task():
    return captioning.build(TINY)


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return captioner.build(captioner.TINY, task.sizes)


def test_scores_of_scenes(task, model, monkeypatch):
    monkeypatch.setattr(captioning, "MORE", 8)
    monkeypatch.setattr(captioning._caption_scores, "installed", lambda: False)
    scores = task.evaluate(model, "valid", decoder("greedy"))
    assert set(scores) == {"bleu1", "bleu2", "bleu3", "bleu4", "exact", "pointing"}
    rival = captioner.build(replace(captioner.TINY, attention="none"), task.sizes)
    assert "pointing" not in task.evaluate(rival, "valid", decoder("greedy"))
    assert {"more_exact", "more_bleu4"} <= set(task.report(model, "valid", decoder("greedy")))
    assert task.goal.metric == "exact" and "2 things" not in task.signatures()["more_exact, more_bleu4"]


def test_every_word_counts_once(task, model):
    batch = task.batch(np.arange(4))
    texts = [text for each in task.collection.split("train").captions[:4] for text in each]
    assert task.loss(model, batch).count == sum(len(text.split()) + 1 for text in texts)


def test_images_are_turned_at_times():
    turning = captioning.build(replace(TINY, flip=0.5))
    examples = np.arange(12)
    plain = turning.image_encoder.encode_rows(turning.collection.split("train").pixels, examples)
    torch.manual_seed(0)
    images = turning.collate(examples).images
    turned = [bool((one == other.flip(2)).all()) for one, other in zip(images, plain, strict=True)]
    same = [bool((one == other).all()) for one, other in zip(images, plain, strict=True)]
    assert any(turned) and any(same) and all(a != b for a, b in zip(turned, same, strict=True))


def test_images_are_moved_by_a_few_pixels(task):
    moved = captioning.build(replace(TINY, crop=2)).collate(np.arange(8)).images
    plain = task.batch(np.arange(8)).images
    assert moved.shape == plain.shape and not torch.equal(moved, plain)
    wide = torch.nn.functional.pad(plain, (2, 2, 2, 2), value=-1.0)
    for one, image in zip(moved, wide, strict=True):
        assert any(torch.equal(one, image[:, y : y + 24, x : x + 24]) for y in range(5) for x in range(5))


def test_images_lose_their_colours_at_times():
    pale_at_times = captioning.build(replace(TINY, grey=0.5))
    torch.manual_seed(0)
    images = pale_at_times.collate(np.arange(12)).images
    pale = {bool((image == image[:1]).all()) for image in images}
    assert pale == {True, False}


def test_captions_that_are_too_long_are_counted_and_left_out():
    short = captioning.build(replace(TINY, longest=6))
    said = sum(map(len, short.collection.split("train").captions))
    left = sum(len(text.split()) >= 6 for each in short.collection.split("train").captions for text in each)
    assert short.data_warnings() == [f"{left} of {said} training captions are longer than 6 tokens: left out"]
    with pytest.raises(ConfigError, match="no caption is as short as longest=3 tokens; give a larger number"):
        captioning.build(replace(TINY, longest=3)).epoch_batches(0, 1)


def test_korean_scenes():
    korean = captioning.build(replace(TINY, language="ko"))
    assert "원" in "".join(korean.vocabulary.token_text(token) for token in range(korean.spec.size))


def test_files_decide_by_bleu(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for number in range(5):
        image = np.random.default_rng(number).integers(0, 255, (10, 10, 3), dtype=np.uint8)
        (tmp_path / "data").mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / "data" / f"{number}.png")
    rows = "".join(f"{number}.png\ta picture of {number}\n{number}.png\tnumber {number}\n" for number in range(5))
    (tmp_path / "data" / "captions.tsv").write_text(rows)
    task = captioning.build(replace(TINY, path=tmp_path / "data", height=8, width=8))
    assert task.target_metric.metric == "bleu4" and any(
        "another size: brought to 8x8" in note for note in task.data_warnings()
    )
    model = captioner.build(captioner.TINY, task.spec)
    scores = task.evaluate(model, "test", decoder("greedy"))
    assert set(scores) == {"bleu1", "bleu2", "bleu3", "bleu4"}
    assert "more_exact" not in task.extra_metrics(model, "test", decoder("greedy"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rows": 0}, "rows=0 must be at least 1"),
        ({"smoothing": 1.0}, "smoothing=1.0 must be at least 0 and below 1"),
        ({"crop": -1}, "crop=-1 pixels: it is not negative; 0 leaves images where they are"),
        ({"flip": -0.5}, "flip=-0.5 must be at least 0 and below 1"),
        ({"name": "photos"}, "no data 'photos'"),
        ({"features": "resnet18"}, "features='resnet18' needs the net's weights"),
    ],
)
def test_what_cannot_be_is_refused(change, text):
    with pytest.raises(ConfigError, match=text):
        Config(**change)


def _given(task):
    return InputImage("x.png", task.collection.split("valid").images(np.arange(1))[0], ())


def test_asking_for_more_captions_does_not_change_the_first(task, model):
    given = _given(task)
    ((alone,),) = task.answer(model, [given], Options(), decoder("greedy"))
    (several,) = task.answer(model, [given], Options(n=7), decoder("greedy"))
    assert several[0].text == alone.text and 1 < len(several) <= 7
    assert len({answer.text for answer in several}) == len(several)


def test_a_wide_search_takes_fewer_images_at_a_time(task, model, monkeypatch):
    monkeypatch.setattr(captioning._captioned, "ROWS", 8)
    sizes, see = [], type(task.see).__call__
    monkeypatch.setattr(type(task.see), "__call__", lambda self, pixels: sizes.append(len(pixels)) or see(self, pixels))
    pixels = task.collection.split("valid").images(np.arange(6))
    wide = task.tell(model, pixels, decoder("beam", width=4, nbest=4))
    assert sizes == [2, 2, 2] and [len(own) for own in wide] == [4] * 6


def test_requests_that_cannot_be_are_refused(task, model):
    with pytest.raises(ConfigError, match="nbest=0: ask for at least one"):
        Options(n=0)
    with pytest.raises(ConfigError, match=r"^nbest=1000000 is too many to search for; ask for at most 1000$"):
        task.answer(model, [_given(task)], Options(n=1_000_000), decoder("greedy"))
    assert Options(occlude="0,0,0.5,1").box() == (0, 0, 0.5, 1)
