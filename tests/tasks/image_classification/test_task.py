"""Images and their classes: answers, what is said of bad images, and the answer without the strongest patches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import ConfigError, DataError
from regard.models import cnn, vit
from regard.tasks import image_classification
from regard.tasks.image_classification import Config, Options


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    image_classification.build(image_classification.TINY).save(folder)
    task = image_classification.load(image_classification.TINY, folder)
    torch.manual_seed(0)
    return task, vit.build(vit.TINY, task.spec).eval()


def test_the_likeliest_classes_come_first(prepared):
    task, model = prepared
    ((first, second, third),) = task.answer(model, [task.read(task.examples[0])], Options(), None)
    assert first.score >= second.score >= third.score and first.text in task.classes
    ((only,),) = task.answer(model, [task.read(task.examples[0])], Options(n=1), None)
    assert only.text == first.text


def test_an_image_of_another_kind_and_size_is_brought_to_that_of_the_model(prepared, tmp_path):
    task, model = prepared
    Image.new("RGBA", (30, 20), (200, 10, 10, 120)).save(tmp_path / "x.png")
    given = task.read(str(tmp_path / "x.png"))
    assert given.pixels.shape == (8, 8, 1)
    assert given.remarks == ("transparent: laid on white", "20x30 pixels: brought to 8x8")
    ((answer, *_),) = task.answer(model, [given], Options(), None)
    assert answer.remarks == ("x.png: transparent: laid on white; 20x30 pixels: brought to 8x8",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.png", None, r"none\.png: no such file$"),
        ("x.png", b"hello", r"x\.png: not an image that Pillow can read; give PNG, JPEG, PGM …$"),
    ],
)
def test_what_is_no_image_is_refused(prepared, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        prepared[0].read(str(tmp_path / name))
    with pytest.raises(DataError, match=r"^there is no image; give the path of an image file$"):
        prepared[0].read(" ")


def test_accuracy_is_the_share_of_right_answers(prepared):
    task, model = prepared
    pixels, labels = task.collection.split("valid").all()
    scores = task.evaluate(model, "valid", None)
    right = model(torch.from_numpy(pixels.transpose(0, 3, 1, 2) / 127.5 - 1).float()).argmax(dim=1).numpy() == labels
    assert scores["accuracy"] == pytest.approx(100 * right.mean())


def test_the_loss_of_mixed_images_is_shared_among_their_classes(tmp_path):
    task = image_classification.build(replace(image_classification.TINY, mixup=0.5))
    batch = task.collate(task.epoch_batches(0, 1)[0])
    model = vit.build(vit.TINY, task.spec).eval()
    log_p = model(batch.images).log_softmax(dim=1).detach()
    rows = torch.arange(8)
    expected = -(batch.weight * log_p[rows, batch.labels] + (1 - batch.weight) * log_p[rows, batch.other_labels]).sum()
    assert task.loss(model, batch).total.item() == pytest.approx(float(expected), rel=1e-5)
    assert (batch.weight < 1).any()


def test_a_page_shows_rollout_and_what_is_answered_without_the_strongest_patches(prepared):
    task, model = prepared
    shown = task.show(model, task.read(task.examples[0]), Options(), None)
    extra = shown.extra["overlay"]
    assert shown.views == ("overlay",)
    assert len(extra["rollout"]) == 9 and sum(extra["rollout"]) <= 1.0001
    counts = [len(one["patches"]) for one in extra["removed"]]
    assert counts == [0, 1, 2, 4, 8] and all(one["answer"] in task.classes for one in extra["removed"])
    strongest = int(np.argmax(extra["rollout"]))
    assert extra["removed"][1]["patches"] == [strongest]
    assert extra["removed"][0]["answer"] == shown.outputs[0].text


def test_a_model_without_patches_shows_no_picture_of_attention(prepared):
    task, _ = prepared
    model = cnn.build(cnn.TINY, task.sizes).eval()
    shown = task.show(model, task.read(task.examples[0]), Options(), None)
    assert shown.views == () and "rollout" not in shown.extra["overlay"]


def test_images_without_classes_are_refused(tmp_path):
    for number in range(30):
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(tmp_path / f"{number}.png")
    with pytest.raises(DataError, match=r"^the images have 0 classes; put those of each class into a folder$"):
        image_classification.build(Config(path=tmp_path))


def test_images_without_a_class_are_left_out_and_that_is_said(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for number in range(60):
        folder = (tmp_path / "a", tmp_path / "b", tmp_path)[number % 3]
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(folder / f"{number}.png")
    task = image_classification.build(Config(path=tmp_path, batch_size=100))
    (note,) = task.data_warnings()
    assert note.endswith("training images have no class and are left out")
    assert len(task.epoch_batches(0, 1)[0]) == len(task.collection.split("train")) - int(note.split()[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 0}, r"^rows=0 must be at least 1$"),
        ({"smoothing": 1.0}, r"^smoothing=1\.0 must be at least 0 and below 1$"),
        ({"erase": 2.0}, r"^erase=2\.0 lies in 0 … 1; 0 leaves images alone$"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_requests_that_make_no_sense():
    with pytest.raises(ConfigError, match=r"^nbest=0: ask for at least one$"):
        Options(n=0)
