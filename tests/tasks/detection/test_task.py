"""Object detection: predictions with boxes, parts of the loss, average precision, COCO files."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import ConfigError, DataError
from regard.data.images.detection_dataset import HELD_OUT_SCENES
from regard.models import detr
from regard.models.detr import Detections
from regard.tasks import detection
from regard.tasks.detection import Config, Options
from regard.tasks.detection.metrics import DetectedObject
from regard.tasks.detection.postprocess import COLOURS, to_prediction
from regard.tasks.detection.task import pad_targets


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    detection.build(detection.TINY).save(folder)
    task = detection.load(detection.TINY, folder)
    torch.manual_seed(0)
    return task, detr.build(detr.TINY, task.spec).eval()


class Oracle(torch.nn.Module):
    """Returns the true objects of the images of a split."""

    def __init__(self, split, num_classes):
        super().__init__()
        self.split, self.num_classes, self.position = split, num_classes, 0
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images):
        rows = range(self.position, self.position + len(images))
        self.position += len(images)
        truth = pad_targets([self.split.labels[row] for row in rows], [self.split.boxes[row] for row in rows])
        logits = torch.full((*truth.labels.shape, self.num_classes + 1), -20.0)
        logits[..., -1] = -5.0
        logits.scatter_(2, truth.labels[..., None], 20.0)
        is_real = torch.arange(truth.labels.shape[1]) < truth.counts[:, None]
        logits[~is_real] = torch.tensor([-20.0] * self.num_classes + [20.0])
        return Detections(logits[None], truth.boxes[None])


def test_an_oracle_has_an_average_precision_of_100(prepared):
    task, _ = prepared
    scores = task.evaluate(Oracle(task.collection.split("valid"), len(task.classes)), "valid", None)
    assert scores["ap50"] == pytest.approx(1, abs=0.001) and scores["ap"] == pytest.approx(1, abs=0.001)


@torch.no_grad()
def test_the_parts_of_the_loss_are_named_and_add_up(prepared):
    task, model = prepared
    loss = task.loss(model, task.collate(task.epoch_batches(0, 1)[0]))
    assert set(loss.parts) == {"class", "distance", "overlap"}
    assert float(loss.total) == pytest.approx(sum(float(part) for part in loss.parts.values()), rel=1e-5)
    class_only = detection.build(replace(detection.TINY, distance_weight=0.0, overlap_weight=0.0))
    loss = class_only.loss(model, class_only.collate(np.arange(2)))
    assert float(loss.total) == pytest.approx(float(loss.parts["class"]))


def test_boxes_are_flipped_with_their_image():
    plain, flipped = (detection.build(replace(detection.TINY, flip=flip)).collate(np.arange(3)) for flip in (0.0, 1.0))
    assert flipped.images.equal(plain.images.flip(3))
    box, flipped_box = plain.targets.boxes[0, 0], flipped.targets.boxes[0, 0]
    assert flipped_box.tolist() == pytest.approx([1 - float(box[0]), *box[1:].tolist()], abs=1e-6)


def test_predictions_have_text_image_and_json(prepared):
    task, model = prepared
    image = task.parse_input(task.examples[0])
    ((prediction,),) = task.predict(model, [image], Options(threshold=0.0), None)
    assert len(prediction.value) == 5 and len(prediction.to_json()["objects"]) == 5
    assert prediction.value[0].score >= prediction.value[-1].score
    assert prediction.render(".png").startswith(b"\x89PNG")
    ((empty,),) = task.predict(model, [image], Options(threshold=1.0), None)
    assert empty.text == "nothing" and empty.value == ()


def test_boxes_are_in_pixels_of_the_original_image(prepared, tmp_path):
    task, _ = prepared
    Image.new("RGB", (400, 200), (90, 90, 90)).save(tmp_path / "photo.png")
    image = task.parse_input(str(tmp_path / "photo.png"))
    assert image.pixels.shape == (32, 32, 3) and image.full_size.shape == (200, 400, 3)
    detections = [DetectedObject(1, 0.9, (0.25, 0.5, 0.5, 0.75)), DetectedObject(0, 0.6, (0.6, 0.0, 1.0, 0.3))]
    prediction = to_prediction(image, detections, classes=task.classes, threshold=0.5)
    first, second = task.classes[1], task.classes[0]
    assert prediction.text == f"{first} 0.90 at 100,100-200,150; {second} 0.60 at 240,0-400,60"
    objects = prediction.to_json()["objects"]
    assert objects[0]["pixels"] == [100, 100, 200, 150] and objects[0]["box"] == [0.25, 0.5, 0.5, 0.75]
    drawn = np.asarray(Image.open(io.BytesIO(prediction.render(".png"))).convert("RGB"))
    assert drawn.shape[1] == 400 and drawn.shape[0] > 200  # the original image, and the legend below it
    assert tuple(drawn[125, 100]) == COLOURS[1] and tuple(drawn[125, 99]) == (90, 90, 90)  # the left edge
    label = drawn[80:100, 100:180].reshape(-1, 3)
    assert (label == COLOURS[1]).all(axis=1).any() and (label < 60).all(axis=1).any()  # a text above the box
    legend = {tuple(pixel) for pixel in drawn[200:].reshape(-1, 3).tolist()}
    assert {COLOURS[0], COLOURS[1]} <= legend


def test_the_page_has_a_box_for_every_query(prepared):
    task, model = prepared
    inspectable = task.inspect(model, task.parse_input(task.examples[0]), Options(), None)
    extra = inspectable.extra["boxes"]
    assert inspectable.views == ("boxes",) and len(extra["queries"]) == len(inspectable.axes["objects"].items) == 5
    assert len(inspectable.axes["grid"].items) == 64 and all(item.box for item in inspectable.axes["grid"].items)


def test_scenes_have_three_splits():
    task = detection.build(replace(detection.TINY, scenes=30))
    assert {name: len(part) for name, part in task.collection.splits.items()} == dict.fromkeys(
        ("train", "valid", "test"), min(30, HELD_OUT_SCENES)
    )


def coco(folder, *, annotations, images=3):
    for index in range(images):
        Image.new("RGB", (40, 20), (index, 0, 0)).save(folder / f"{index}.png")
    table = {
        "images": [{"id": index, "file_name": f"{index}.png"} for index in range(images)],
        "annotations": annotations,
        "categories": [{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}],
    }
    (folder / "boxes.json").write_text(json.dumps(table))


def test_boxes_of_coco_are_read(tmp_path):
    rows = [{"image_id": index, "category_id": 7, "bbox": [10, 5, 20, 10]} for index in range(30)]
    coco(tmp_path, annotations=[*rows, {"image_id": 0, "category_id": 3, "bbox": [50, 0, 5, 5]}], images=30)
    task = detection.build(Config(path=tmp_path, height=16, width=16))
    assert task.classes == ("dog", "cat")
    split = task.collection.split("train")
    assert split.boxes[0].tolist() == [[0.25, 0.25, 0.75, 0.75]] and split.labels[0].tolist() == [1]
    assert task.data_warnings() == ["0.png: a box without an area inside the image: left out"]


def test_files_that_are_not_coco_are_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"no \.json file with images, annotations and categories; give the COCO format$"
    ):
        detection.build(Config(path=tmp_path))
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(DataError, match=r"x\.json: not COCO JSON \(KeyError\('images'\)\); it needs images"):
        detection.build(Config(path=tmp_path))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, r"^batch_size=0 must be at least 1$"),
        ({"flip": 2.0}, r"^flip=2\.0 must be between 0 and 1$"),
        ({"class_weight": -1.0}, r"^class_weight=-1\.0 must be at least 0$"),
        ({"dataset": "scene"}, r"^no data 'scene'; files are given as data\.path=…; did you mean 'scenes'\?$"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_invalid_options_are_refused():
    with pytest.raises(ConfigError, match=r"^threshold=2 must be between 0 and 1$"):
        Options(threshold=2)
