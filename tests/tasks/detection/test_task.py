"""Objects in images: answers with boxes, parts of the loss, average precision of what is there."""

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


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    detection.build(detection.TINY).save(folder)
    task = detection.load(detection.TINY, folder)
    torch.manual_seed(0)
    return task, detr.build(detr.TINY, task.spec).eval()


class Oracle(torch.nn.Module):
    """Says of the images of a split what is there."""

    def __init__(self, part, classes):
        super().__init__()
        self.part, self.classes, self.place = part, classes, 0
        self.nothing = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images):
        rows = range(self.place, self.place + len(images))
        self.place += len(images)
        truth = detection.padded([self.part.labels[row] for row in rows], [self.part.boxes[row] for row in rows])
        logits = torch.full((*truth.labels.shape, self.classes + 1), -20.0)
        logits[..., -1] = -5.0
        logits.scatter_(2, truth.labels[..., None], 20.0)
        there = torch.arange(truth.labels.shape[1]) < truth.counts[:, None]
        logits[~there] = torch.tensor([-20.0] * self.classes + [20.0])
        return Detections(logits[None], truth.boxes[None])


def test_who_knows_everything_has_full_marks(prepared):
    task, _ = prepared
    scores = task.evaluate(Oracle(task.collection.split("valid"), len(task.classes)), "valid", None)
    assert scores["ap50"] == pytest.approx(100, abs=0.1) and scores["ap"] == pytest.approx(100, abs=0.1)


@torch.no_grad()
def test_the_parts_of_the_loss_are_named_and_add_up(prepared):
    task, model = prepared
    loss = task.loss(model, task.batch(task.plan(0, 1)[0]))
    assert set(loss.parts) == {"class", "distance", "overlap"}
    assert float(loss.total) == pytest.approx(sum(float(part) for part in loss.parts.values()), rel=1e-5)
    one = detection.build(replace(detection.TINY, distance_weight=0.0, overlap_weight=0.0))
    alone = one.loss(model, one.collate(np.arange(2)))
    assert float(alone.total) == pytest.approx(float(alone.parts["class"]))


def test_boxes_turn_with_their_image():
    plain, turned = (detection.build(replace(detection.TINY, flip=flip)).collate(np.arange(3)) for flip in (0.0, 1.0))
    assert turned.images.equal(plain.images.flip(3))
    boxes, other = plain.targets.boxes[0, 0], turned.targets.boxes[0, 0]
    assert other.tolist() == pytest.approx([1 - float(boxes[0]), *boxes[1:].tolist()], abs=1e-6)


def test_objects_are_told_drawn_and_given_to_programs(prepared):
    task, model = prepared
    given = task.read(task.examples[0])
    ((every,),) = task.answer(model, [given], Options(threshold=0.0), None)
    assert len(every.value) == 5 and len(every.to_json()["objects"]) == 5
    assert every.value[0].score >= every.value[-1].score
    assert every.render(".png").startswith(b"\x89PNG")
    ((none,),) = task.answer(model, [given], Options(threshold=1.0), None)
    assert none.text == "nothing" and none.value == ()


def test_a_page_has_a_box_for_every_query(prepared):
    task, model = prepared
    shown = task.show(model, task.read(task.examples[0]), Options(), None)
    extra = shown.extra["boxes"]
    assert shown.views == ("boxes",) and len(extra["queries"]) == len(shown.axes["objects"].items) == 5
    assert len(shown.axes["grid"].items) == 64 and all(item.box for item in shown.axes["grid"].items)


def test_what_is_held_out_has_pairs_that_training_has_not():
    task = detection.build(replace(detection.TINY, scenes=30))
    assert {name: len(part) for name, part in task.collection.splits.items()} == dict.fromkeys(
        ("train", "valid", "test"), min(30, HELD_OUT_SCENES)
    )


def coco(folder, *, annotations, images=3):
    for number in range(images):
        Image.new("RGB", (40, 20), (number, 0, 0)).save(folder / f"{number}.png")
    table = {
        "images": [{"id": number, "file_name": f"{number}.png"} for number in range(images)],
        "annotations": annotations,
        "categories": [{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}],
    }
    (folder / "boxes.json").write_text(json.dumps(table))


def test_boxes_of_coco_are_read(tmp_path):
    rows = [{"image_id": number % 30, "category_id": 7, "bbox": [10, 5, 20, 10]} for number in range(30)]
    coco(tmp_path, annotations=[*rows, {"image_id": 0, "category_id": 3, "bbox": [50, 0, 5, 5]}], images=30)
    task = detection.build(Config(path=tmp_path, height=16, width=16))
    assert task.classes == ("dog", "cat")
    part = task.collection.split("train")
    assert part.boxes[0].tolist() == [[0.25, 0.25, 0.75, 0.75]] and part.labels[0].tolist() == [1]
    assert task.data_warnings() == ["0.png: a box without an area inside the image: left out"]


def test_what_is_not_coco_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no \.json file with images, annotations and categories; give COCO's format$"):
        detection.build(Config(path=tmp_path))
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(DataError, match=r"x\.json: not COCO's JSON \(KeyError\('images'\)\); it needs images"):
        detection.build(Config(path=tmp_path))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 0}, r"^scenes, rows, height and width must be at least 1$"),
        ({"flip": 2.0}, r"^flip=2\.0 lies in 0 … 1$"),
        ({"class_weight": -1.0}, r"^weights of the loss are not negative; 0 leaves a part out$"),
        ({"name": "scene"}, r"^no data 'scene'; files are given as data\.path=…; did you mean 'scenes'\?$"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_requests_that_make_no_sense():
    with pytest.raises(ConfigError, match=r"^least=2 lies in 0 … 1$"):
        Options(threshold=2)
