"""Detection: an image in, its objects out, each with a class and a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import DetectionSpec
from regard.core.errors import ConfigError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
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

BATCH_IMAGES = 64  # images that are looked at at once
DEFAULT_THRESHOLD = 0.5  # how sure an object must be to be told


@dataclass(frozen=True)
class Config:
    """Which images and objects. Without a path, scenes of coloured shapes made by code."""

    path: Path | None = None  # a folder of images with COCO's JSON, or such a file
    dataset: str = detection_dataset.BUILT_IN  # without a path: scenes
    scenes: int = 8000  # of the built-in training data
    objects_per_scene: tuple[int, int] = (1, 4)  # the least and the most shapes of a scene
    height: int = 64  # rows that every image is brought to
    width: int = 64  # columns that every image is brought to; a scene is a square of `height`
    channels: int = 3  # 1: grey, 3: colour
    flip: float = 0.5  # how often left and right change places in training
    batch_size: int = 32  # images in a batch
    class_weight: float = 1.0  # what the class of an object counts in the loss
    distance_weight: float = 5.0  # what the distance between boxes counts
    overlap_weight: float = 2.0  # what their generalised overlap counts
    nothing_weight: float = 0.1  # what a query that should find nothing counts
    seed: int = 1  # of the built-in data, and of splits that are not given

    def __post_init__(self) -> None:
        if min(self.scenes, self.batch_size, self.height, self.width) < 1:
            raise ConfigError("scenes, rows, height and width must be at least 1")
        if not 0 <= self.flip <= 1:
            raise ConfigError(f"flip={self.flip} lies in 0 … 1")
        if min(self.class_weight, self.distance_weight, self.overlap_weight, self.nothing_weight) < 0:
            raise ConfigError("weights of the loss are not negative; 0 leaves a part out")
        if self.path is None:
            detection_dataset.check_source(self.dataset)

    @property
    def loss_weights(self) -> LossWeights:
        """What each part of the loss counts."""
        return LossWeights(self.class_weight, self.distance_weight, self.overlap_weight, self.nothing_weight)


TINY = Config(scenes=24, height=32, width=32, batch_size=4, objects_per_scene=(1, 2))  # for tests


@dataclass(frozen=True)
class Options:
    """What one can ask for."""

    threshold: float = DEFAULT_THRESHOLD  # how sure the model must be of an object, 0 … 1

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold={self.threshold} lies in 0 … 1")


class ObjectBatch(NamedTuple):
    """Images and their objects."""

    images: Tensor  # (b c h w) of -1 … 1
    targets: ObjectTargets


class Detection(Task):
    """Images with objects: batches, the loss of matched sets, average precision."""

    target_metric, throughput_unit, input_suffixes = (
        TargetMetric("ap50", higher_is_better=True),
        "images",
        image_inputs.INPUT_SUFFIXES,
    )

    def __init__(
        self,
        config: Config,
        data_info: ImageDataInfo,
        *,
        load_collection: Callable[[], DetectionCollection],
        folder: Path | None = None,
    ) -> None:
        self.config, self.data_info, self.shape, self.classes = config, data_info, data_info.shape, data_info.classes
        self._read, self._folder = load_collection, folder
        most = int(data_info.extra["most"])
        self.spec = DetectionSpec(
            self.shape.height, self.shape.width, self.shape.channels, len(data_info.classes), most
        )
        self.examples = image_inputs.example_paths(folder)

    @cached_property
    def collection(self) -> DetectionCollection:
        """The images of each split; read when first asked for."""
        return self._read()

    def data_summary(self) -> list[str]:
        """How many images there are, their size, and the objects of the first one."""
        splits = self.collection.splits
        names = [self.classes[label] for label in splits["train"].labels[0]]
        known = f"{len(self.classes)} classes", f"at most {self.spec.max_objects} objects in an image"
        return image_inputs.summarize_images(splits, self.shape, *known, ", ".join(names) or "without objects")

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        parts = self.collection.splits.items()
        return image_inputs.fingerprint({name: zip(*part, strict=True) for name, part in parts})

    def data_warnings(self) -> list[str]:
        """What a user should know of the data."""
        return list(self.collection.remarks)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of images, in random order."""
        return image_inputs.shuffled_batches(
            len(self.collection.split("train")), self.config.batch_size, epoch=epoch, seed=seed
        )

    def collate(self, examples: Indices) -> ObjectBatch:
        """Example numbers -> images and objects, some turned left to right."""
        part = self.collection.split("train")
        turned = (torch.rand(len(examples)) < self.config.flip).tolist()
        images, boxes = [], []
        for row, turn in zip(examples.tolist(), turned, strict=True):
            left, top, right, bottom = part.boxes[row].T
            images.append(part.pixels[row][:, ::-1] if turn else part.pixels[row])
            boxes.append(np.stack([1 - right, top, 1 - left, bottom] if turn else [left, top, right, bottom], axis=1))
        labels = [part.labels[row] for row in examples.tolist()]
        return ObjectBatch(to_tensor(np.stack(images)), pad_targets(labels, boxes))

    def loss(self, model: Any, batch: ObjectBatch) -> Loss:
        """The training loss, summed over images: class, distance and overlap of the matched objects after every layer
        of the decoder; its parts are named."""
        found = model(batch.images)
        layers = len(found.logits)
        truth = ObjectTargets(*(x.repeat(layers, *(1,) * (x.dim() - 1)) for x in batch.targets))
        parts = set_loss(found.logits.flatten(0, 1), found.boxes.flatten(0, 1), truth, self.config.loss_weights)
        return Loss(torch.stack(list(parts.values())).sum(), len(batch.images), parts)

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """`ap50`, average precision at half overlap, and `ap`, the mean over overlaps 0.5 … 0.95; both in percent."""
        part = self.collection.split(split)
        truth = [
            [GroundTruthObject(int(label), tuple(box.tolist())) for label, box in zip(labels, boxes, strict=True)]
            for labels, boxes in zip(part.labels, part.boxes, strict=True)
        ]
        found = self.detect(model, part.pixels)
        each = [100 * average_precision(found, truth, threshold=threshold) for threshold in IOU_THRESHOLDS]
        return {"ap50": each[0], "ap": float(np.mean(each))}

    def detect(self, model: Any, pixels: Pixels) -> list[list[DetectedObject]]:
        """Images (n h w c) of 0 … 255 -> what each query of each found, surest first."""
        found: list[list[DetectedObject]] = []
        with eval_mode(model) as device:
            for low in track(range(0, len(pixels), BATCH_IMAGES), -(-len(pixels) // BATCH_IMAGES)):
                seen = model(to_tensor(pixels[low : low + BATCH_IMAGES]).to(device))
                found += inspect.decode_detections(seen.logits[-1], seen.boxes[-1])
        return found

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        how = "mean over classes of interpolated precision at 101 recalls, every query with its likeliest class"
        return {"ap50": f"{how}, overlap 0.5, percent", "ap": f"{how}, mean over overlaps 0.50:0.05:0.95, percent"}

    def save(self, folder: Path) -> None:
        """Write the shape and the classes, and an image to try."""
        self.data_info.save(
            folder, image_inputs.example_png(self._folder, lambda: self.collection.split("valid").pixels[0])
        )

    def parse_input(self, text: str) -> InputImage:
        """The path of an image file -> the image in the size of the model."""
        return image_inputs.resize_image(image_inputs.read_image(text, self.shape.channels), self.shape)

    def predict(
        self, model: Any, inputs: Sequence[InputImage], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Images -> of each one answer, whose value is all objects in it, surest first."""
        if not inputs:
            return []
        found = self.detect(model, np.stack([given.pixels for given in inputs]))
        answer = partial(inspect.to_prediction, classes=self.classes, threshold=options.threshold)
        return [[answer(given, each)] for given, each in zip(inputs, found, strict=True)]

    def inspect(self, model: Any, parsed_input: InputImage, options: Options, decoding: Any) -> Inspectable:
        """An image -> its objects, and where each query looked."""
        with eval_mode(model) as device:
            image = to_tensor(parsed_input.pixels[None]).to(device)
            return inspect.build_inspectable(
                model, image, parsed_input, classes=self.classes, threshold=options.threshold
            )


def pad_targets(labels: Sequence[Any], boxes: Sequence[Any]) -> ObjectTargets:
    """Labels and corners of the objects of each image -> one value, padded."""
    counts = [len(each) for each in labels]
    truth = ObjectTargets(
        torch.zeros(len(labels), max(counts, default=0), dtype=torch.long),
        torch.zeros(len(labels), max(counts, default=0), 4),
        torch.tensor(counts),
    )
    for row, (own, places) in enumerate(zip(labels, boxes, strict=True)):
        edges = torch.from_numpy(np.ascontiguousarray(places, dtype=np.float32))
        truth.labels[row, : len(own)] = torch.from_numpy(own)
        truth.boxes[row, : len(own), :2] = (edges[:, :2] + edges[:, 2:]) / 2
        truth.boxes[row, : len(own), 2:] = edges[:, 2:] - edges[:, :2]
    return truth


def _collect(config: Config) -> DetectionCollection:
    if config.path is None:
        return detection_dataset.make_scenes(
            config.scenes, side=config.height, things=config.objects_per_scene, seed=config.seed
        )
    return detection_dataset.read_coco(
        config.path, ImageShape(config.height, config.width, config.channels), seed=config.seed
    )


def build(config: Config, folder: Path | None = None) -> Detection:
    """A config -> the task with the classes of the data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    found = _collect(config)
    most = max(len(labels) for part in found.splits.values() for labels in part.labels)
    return Detection(
        config, ImageDataInfo(found.shape, found.classes, {"most": max(1, most)}), load_collection=lambda: found
    )


def load(config: Config, folder: Path) -> Detection:
    """A config and a run folder -> the task of that run; the data is not needed until it is asked for."""
    return Detection(
        config, image_inputs.load_data_info(folder), load_collection=lambda: _collect(config), folder=folder
    )
