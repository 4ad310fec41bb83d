"""Object detection: images with boxes, the set loss of DETR, average precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.data_specs import DetectionSpec
from regard.core.errors import ConfigError, pluralize
from regard.core.example_statistics import record_statistics
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data.images import detection_dataset
from regard.data.images.detection_dataset import DetectionCollection
from regard.data.images.image_files import Pixels
from regard.data.images.resize import ImageShape
from regard.tasks._shared import image_inputs
from regard.tasks._shared.image_inputs import ImageDataInfo, InputImage, to_tensor
from regard.tasks.detection import inspect
from regard.tasks.detection.matching import LossWeights, ObjectTargets, set_loss
from regard.tasks.detection.metrics import IOU_THRESHOLDS, DetectedObject, GroundTruthObject, average_precision
from regard.tasks.detection.postprocess import decode_detections, to_prediction

BATCH_IMAGES = 64  # images per forward pass in evaluation
DEFAULT_THRESHOLD = 0.5  # minimum confidence of a returned object


@dataclass(frozen=True)
class Config:
    """Image source, size and loss weights. Without a path, generated scenes of coloured shapes are used."""

    path: Path | None = None  # a folder of images with a COCO JSON file, or such a file
    dataset: str = detection_dataset.BUILT_IN  # without a path: scenes
    scenes: int = 8000  # number of scenes of the built-in training data
    objects_per_scene: tuple[int, int] = (1, 4)  # minimum and maximum number of shapes in a scene
    height: int = 64  # rows that every image is resized to
    width: int = 64  # columns that every image is resized to; a scene is a square of `height`
    channels: int = 3  # 1: grey, 3: colour
    flip: float = 0.5  # probability of a horizontal flip in training
    batch_size: int = 32  # images in a batch
    class_weight: float = 1.0  # loss weight of the class
    distance_weight: float = 5.0  # loss weight of the L1 distance between boxes
    overlap_weight: float = 2.0  # loss weight of the generalized IoU of boxes
    nothing_weight: float = 0.1  # class weight of queries without an object
    seed: int = 1  # seed of the built-in data, and of splits that the data does not have

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("scenes", "batch_size", "height", "width"),
            at_least_0=("class_weight", "distance_weight", "overlap_weight", "nothing_weight"),
        )
        if not 0 <= self.flip <= 1:
            raise ConfigError(f"flip={self.flip} must be between 0 and 1")
        if self.path is None:
            detection_dataset.check_source(self.dataset)

    @property
    def loss_weights(self) -> LossWeights:
        """Weights of the parts of the loss."""
        return LossWeights(self.class_weight, self.distance_weight, self.overlap_weight, self.nothing_weight)


TINY = Config(scenes=24, height=32, width=32, batch_size=4, objects_per_scene=(1, 2))  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request."""

    threshold: float = DEFAULT_THRESHOLD  # minimum confidence of an object, 0 … 1

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold={self.threshold} must be between 0 and 1")


class ObjectBatch(NamedTuple):
    """Images and their objects."""

    images: Tensor  # (b c h w) of -1 … 1
    targets: ObjectTargets


class Detection(Task):
    """Object detection task: batches of images with boxes, the set loss, average precision."""

    spec: DetectionSpec
    target_metric = TargetMetric("ap50", higher_is_better=True)
    throughput_unit, input_suffixes = "images", image_inputs.INPUT_SUFFIXES

    def __init__(
        self,
        config: Config,
        data_info: ImageDataInfo,
        *,
        load_collection: Callable[[], DetectionCollection],
        folder: Path | None = None,
    ) -> None:
        self.config, self.data_info, self.shape, self.classes = config, data_info, data_info.shape, data_info.classes
        self._load_collection, self._folder = load_collection, folder
        max_objects = int(data_info.extra["most"])
        self.spec = DetectionSpec(
            self.shape.height, self.shape.width, self.shape.channels, len(data_info.classes), max_objects
        )
        self.examples = image_inputs.example_paths(folder)

    @cached_property
    def collection(self) -> DetectionCollection:
        """The images of each split, read on first use."""
        return self._load_collection()

    def data_summary(self) -> list[str]:
        splits = self.collection.splits
        names = [self.classes[label] for label in splits["train"].labels[0]]
        details = pluralize(len(self.classes), "class"), f"at most {self.spec.max_objects} objects in an image"
        return image_inputs.summarize_images(splits, self.shape, *details, ", ".join(names) or "without objects")

    def fingerprint(self) -> dict[str, str]:
        splits = self.collection.splits.items()
        return image_inputs.fingerprint({name: zip(*split, strict=True) for name, split in splits})

    def data_warnings(self) -> list[str]:
        return list(self.collection.remarks)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of images, in random order."""
        return image_inputs.shuffled_batches(
            len(self.collection.split("train")), self.config.batch_size, epoch=epoch, seed=seed
        )

    def collate(self, examples: Indices) -> ObjectBatch:
        """Example ids -> images and objects, some of them flipped."""
        split = self.collection.split("train")
        flips = (torch.rand(len(examples)) < self.config.flip).tolist()
        images, boxes = [], []
        for row, flip in zip(examples.tolist(), flips, strict=True):
            left, top, right, bottom = split.boxes[row].T
            images.append(split.pixels[row][:, ::-1] if flip else split.pixels[row])
            boxes.append(np.stack([1 - right, top, 1 - left, bottom] if flip else [left, top, right, bottom], axis=1))
        labels = [split.labels[row] for row in examples.tolist()]
        return ObjectBatch(to_tensor(np.stack(images)), pad_targets(labels, boxes))

    def loss(self, model: Any, batch: ObjectBatch) -> Loss:
        """Return the set loss of all decoder layers, summed over images; parts: class, distance, overlap."""
        return self._set_loss(model(batch.images), batch.targets)

    def _set_loss(self, output: Any, targets: ObjectTargets) -> Loss:
        num_layers = len(output.logits)
        repeated = ObjectTargets(*(x.repeat(num_layers, *(1,) * (x.dim() - 1)) for x in targets))
        parts = set_loss(output.logits.flatten(0, 1), output.boxes.flatten(0, 1), repeated, self.config.loss_weights)
        return Loss(torch.stack(list(parts.values())).sum(), output.logits.shape[1], parts)

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Return `ap50`, average precision at IoU 0.5, `ap`, the mean over IoU 0.5 … 0.95, both 0 to 1, and `loss`."""
        data = self.collection.split(split)
        ground_truth = [
            [GroundTruthObject(int(label), tuple(box.tolist())) for label, box in zip(labels, boxes, strict=True)]
            for labels, boxes in zip(data.labels, data.boxes, strict=True)
        ]
        detections, total = list[list[DetectedObject]](), 0.0
        with eval_mode(model) as device:
            for low in track(range(0, len(data.pixels), BATCH_IMAGES), -(-len(data.pixels) // BATCH_IMAGES)):
                rows = slice(low, low + BATCH_IMAGES)
                output = model(to_tensor(data.pixels[rows]).to(device))
                detections += decode_detections(output.logits[-1], output.boxes[-1])
                targets = map_tensors(pad_targets(data.labels[rows], data.boxes[rows]), lambda x: x.to(device))
                total += self._set_loss(output, targets).total.item()
        precisions = [average_precision(detections, ground_truth, threshold=threshold) for threshold in IOU_THRESHOLDS]
        _record_ap50(detections, ground_truth)
        loss = total / max(1, len(data.pixels))
        return {"ap50": precisions[0], "ap": float(np.mean(precisions)), "loss": loss}

    def detect(self, model: Any, pixels: Pixels) -> list[list[DetectedObject]]:
        """Images (n h w c) of 0 … 255 -> the objects of all queries, most confident first."""
        detections: list[list[DetectedObject]] = []
        with eval_mode(model) as device:
            for low in track(range(0, len(pixels), BATCH_IMAGES), -(-len(pixels) // BATCH_IMAGES)):
                output = model(to_tensor(pixels[low : low + BATCH_IMAGES]).to(device))
                detections += decode_detections(output.logits[-1], output.boxes[-1])
        return detections

    def signatures(self) -> dict[str, str]:
        method = "mean over classes of interpolated precision at 101 recalls, every query with its most likely class"
        return {"ap50": f"{method}, IoU 0.5", "ap": f"{method}, mean over IoU 0.50:0.05:0.95"}

    def save(self, folder: Path) -> None:
        """Write the image shape, the classes and an example image."""
        self.data_info.save(
            folder, image_inputs.example_png(self._folder, lambda: self.collection.split("valid").pixels[0])
        )

    def parse_object(self, value: Any) -> Any:
        """Return a Pillow image or a NumPy array as an input; other objects are inputs already."""
        return self.parse_input(value) if image_inputs.is_image_object(value) else value

    def parse_input(self, text: str) -> InputImage:
        """Read an image file and resize it to the model's input size."""
        return image_inputs.resize_image(image_inputs.read_image(text, self.shape.channels), self.shape)

    def predict(
        self, model: Any, inputs: Sequence[InputImage], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Images -> one prediction each, whose value is the objects in the image, most confident first."""
        if not inputs:
            return []
        detections = self.detect(model, np.stack([image.pixels for image in inputs]))
        predict = partial(to_prediction, classes=self.classes, threshold=options.threshold)
        return [[predict(image, objects)] for image, objects in zip(inputs, detections, strict=True)]

    def inspect(self, model: Any, parsed_input: InputImage, options: Options, decoding: Any) -> Inspectable:
        with eval_mode(model) as device:
            image = to_tensor(parsed_input.pixels[None]).to(device)
            return inspect.build_inspectable(
                model, image, parsed_input, classes=self.classes, threshold=options.threshold
            )


def _record_ap50(
    detections: Sequence[Sequence[DetectedObject]], ground_truth: Sequence[Sequence[GroundTruthObject]]
) -> None:
    """Record the detections and the objects of each image, from which average precision is computed."""
    images = np.empty((len(detections), 2), dtype=object)
    for row, pair in zip(images, zip(detections, ground_truth, strict=True), strict=True):
        row[0], row[1] = pair
    threshold = IOU_THRESHOLDS[0]
    record_statistics("ap50", images, lambda rows: average_precision(*rows.T.tolist(), threshold=threshold))


def pad_targets(labels: Sequence[Any], boxes: Sequence[Any]) -> ObjectTargets:
    """Pad the labels and boxes (corners) of the objects of each image to one batch."""
    counts = [len(image_labels) for image_labels in labels]
    targets = ObjectTargets(
        torch.zeros(len(labels), max(counts, default=0), dtype=torch.long),
        torch.zeros(len(labels), max(counts, default=0), 4),
        torch.tensor(counts),
    )
    for row, (image_labels, image_boxes) in enumerate(zip(labels, boxes, strict=True)):
        corners = torch.from_numpy(np.ascontiguousarray(image_boxes, dtype=np.float32))
        count = len(image_labels)
        targets.labels[row, :count] = torch.from_numpy(image_labels)
        targets.boxes[row, :count, :2] = (corners[:, :2] + corners[:, 2:]) / 2
        targets.boxes[row, :count, 2:] = corners[:, 2:] - corners[:, :2]
    return targets


def _load_data(config: Config) -> DetectionCollection:
    if config.path is None:
        return detection_dataset.make_scenes(
            config.scenes, side=config.height, things=config.objects_per_scene, seed=config.seed
        )
    return detection_dataset.read_coco(
        config.path, ImageShape(config.height, config.width, config.channels), seed=config.seed
    )


def build(config: Config, folder: Path | None = None) -> Detection:
    """Return the task with the classes of the data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    collection = _load_data(config)
    max_objects = max(len(labels) for split in collection.splits.values() for labels in split.labels)
    info = ImageDataInfo(collection.shape, collection.classes, {"most": max(1, max_objects)})
    return Detection(config, info, load_collection=lambda: collection)


def load(config: Config, folder: Path) -> Detection:
    """Return the task of a run folder; the data is read only when it is used."""
    return Detection(
        config, image_inputs.load_data_info(folder), load_collection=lambda: _load_data(config), folder=folder
    )
