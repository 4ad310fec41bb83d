"""Image classification: predictions, invalid images, mixed images, and the data of the page."""

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


def test_the_most_likely_classes_come_first(prepared):
    task, model = prepared
    ((first, second, third),) = task.predict(model, [task.parse_input(task.examples[0])], Options(n=3), None)
    assert first.score >= second.score >= third.score and first.text in task.classes
    ((only,),) = task.predict(model, [task.parse_input(task.examples[0])], Options(), None)
    assert only.text == first.text


def test_an_image_of_another_mode_and_size_is_converted(prepared, tmp_path):
    task, model = prepared
    Image.new("RGBA", (30, 20), (200, 10, 10, 120)).save(tmp_path / "x.png")
    image = task.parse_input(str(tmp_path / "x.png"))
    assert image.pixels.shape == (8, 8, 1)
    assert image.remarks == ("transparent: placed on a white background", "20x30 pixels: resized to 8x8")
    ((answer, *_),) = task.predict(model, [image], Options(), None)
    assert answer.remarks == ("x.png: transparent: placed on a white background; 20x30 pixels: resized to 8x8",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.png", None, r"none\.png: no such file$"),
        ("x.png", b"hello", r"x\.png: not an image that Pillow can read; give PNG, JPEG, PGM …$"),
    ],
)
def test_files_that_are_not_images_are_refused(prepared, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        prepared[0].parse_input(str(tmp_path / name))
    with pytest.raises(DataError, match=r"^there is no image; give the path of an image file$"):
        prepared[0].parse_input(" ")


def test_accuracy_is_the_share_of_correct_predictions(prepared):
    task, model = prepared
    pixels, labels = task.collection.split("valid").all()
    scores = task.evaluate(model, "valid", None)
    is_correct = (
        model(torch.from_numpy(pixels.transpose(0, 3, 1, 2) / 127.5 - 1).float()).argmax(dim=1).numpy() == labels
    )
    assert scores["accuracy"] == pytest.approx(is_correct.mean())


def test_the_loss_of_mixed_images_is_shared_among_their_classes():
    task = image_classification.build(replace(image_classification.TINY, mixup=0.5))
    batch = task.collate(task.epoch_batches(0, 1)[0])
    model = vit.build(vit.TINY, task.spec).eval()
    log_p = model(batch.images).log_softmax(dim=1).detach()
    rows = torch.arange(8)
    expected = -(batch.weight * log_p[rows, batch.labels] + (1 - batch.weight) * log_p[rows, batch.other_labels]).sum()
    assert task.loss(model, batch).total.item() == pytest.approx(float(expected), rel=1e-5)
    assert (batch.weight < 1).any()


def test_the_page_has_rollout_and_predictions_without_the_strongest_patches(prepared):
    task, model = prepared
    inspectable = task.inspect(model, task.parse_input(task.examples[0]), Options(), None)
    extra = inspectable.extra["overlay"]
    assert inspectable.views == ("overlay",)
    assert len(extra["rollout"]) == 9 and sum(extra["rollout"]) <= 1.0001
    counts = [len(row["patches"]) for row in extra["removed"]]
    assert counts == [0, 1, 2, 4, 8] and all(row["answer"] in task.classes for row in extra["removed"])
    strongest = int(np.argmax(extra["rollout"]))
    assert extra["removed"][1]["patches"] == [strongest]
    assert extra["removed"][0]["answer"] == inspectable.outputs[0].text


def test_a_model_without_patches_has_no_rollout(prepared):
    task, _ = prepared
    model = cnn.build(cnn.TINY, task.spec).eval()
    inspectable = task.inspect(model, task.parse_input(task.examples[0]), Options(), None)
    assert inspectable.views == () and "rollout" not in inspectable.extra["overlay"]


def test_images_without_classes_are_refused(tmp_path):
    for level in range(30):
        Image.fromarray(np.full((4, 4), level, np.uint8)).save(tmp_path / f"{level}.png")
    with pytest.raises(
        DataError, match=r"^the images have 0 classes, and two are needed; put the images of each class into a folder$"
    ):
        image_classification.build(Config(path=tmp_path))


def test_images_without_a_class_are_left_out_with_a_warning(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for level in range(60):
        folder = (tmp_path / "a", tmp_path / "b", tmp_path)[level % 3]
        Image.fromarray(np.full((4, 4), level, np.uint8)).save(folder / f"{level}.png")
    task = image_classification.build(Config(path=tmp_path, batch_size=100))
    (warning,) = task.data_warnings()
    assert warning.endswith("training images have no class and are left out")
    assert len(task.epoch_batches(0, 1)[0]) == len(task.collection.split("train")) - int(warning.split()[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, r"^batch_size=0 must be at least 1$"),
        ({"smoothing": 1.0}, r"^smoothing=1\.0 must be at least 0 and below 1$"),
        ({"erase": 2.0}, r"^erase=2\.0: must lie in 0 … 1; 0 switches it off$"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_invalid_options_are_refused():
    with pytest.raises(ConfigError, match=r"^n=0 must be at least 1$"):
        Options(n=0)


def test_pillow_images_and_arrays_are_inputs(prepared):
    task, model = prepared
    image = Image.open(task.examples[0])
    inputs = [task.parse_input(task.examples[0]), task.parse_object(image), task.parse_object(np.asarray(image))]
    first, *others = ([prediction.text for prediction in row] for row in task.predict(model, inputs, Options(), None))
    assert all(labels == first for labels in others)
    assert task.parse_object(inputs[0]) is inputs[0]
