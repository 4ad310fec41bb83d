"""Image classification: labeled images, cross entropy, accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.core.config import check_fields
from regard.core.data_specs import ImageClassificationSpec
from regard.core.errors import DataError, pluralize
from regard.core.example_statistics import record_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.task import Prediction, Task
from regard.data.images import dataset
from regard.data.images.augment import Augmentation, MixedBatch, augment
from regard.data.images.dataset import ImageCollection
from regard.data.images.image_files import Pixels
from regard.data.images.resize import Fit
from regard.tasks._shared import image_inputs
from regard.tasks._shared.image_inputs import ImageDataInfo, InputImage, to_tensor
from regard.tasks.image_classification import inspect

BATCH_IMAGES = 256  # images per forward pass in evaluation


@dataclass(frozen=True)
class Config:
    """Image source, size and augmentation. Without a path, the digits of scikit-learn are used."""

    path: Path | None = None  # a folder by class, images with labels.csv, an archive, idx or .npz files
    dataset: str = dataset.BUILT_IN  # without a path: digits, or hf:… for Hugging Face
    height: int = 0  # rows that every image is resized to; 0: those of the first image
    width: int = 0  # columns that every image is resized to; 0: those of the first image
    channels: int = 0  # 1: grey, 3: colour, 0: as the first image
    fit: Fit = "stretch"  # resizing of other sizes: stretch, crop the middle, or pad with a border
    fill: int = 0  # brightness of the border, 0 … 255
    batch_size: int = 64  # images in a batch
    smoothing: float = 0.0  # label smoothing: this share of the probability is spread over all classes
    seed: int = 1  # seed of splits that the data does not have
    crop: int = 0  # shift training images by up to this many pixels in any direction, filling with the darkest value
    flip: float = 0.0  # probability of a horizontal flip in training
    shift: float = 0.0  # random translation, rotation, shear and scaling of training images, up to this share
    erase: float = 0.0  # probability that a rectangle of a training image is replaced by noise
    mixup: float = 0.0  # mix training images in pairs with weights from Beta(mixup, mixup); 0: off

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("batch_size",), probability=("smoothing",))
        _ = self.augmentation  # validates its settings

    @property
    def augmentation(self) -> Augmentation:
        """Augmentation of training images."""
        return Augmentation(self.crop, self.flip, self.shift, self.erase, self.mixup)


TINY = Config(batch_size=8)  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request."""

    n: int = 1  # number of classes per image, most likely first

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",))


class ImageClassification(Task):
    """Image classification task: batches of labeled images, cross entropy, accuracy."""

    spec: ImageClassificationSpec
    target_metric = TargetMetric("accuracy", higher_is_better=True)
    throughput_unit, input_suffixes = "images", image_inputs.INPUT_SUFFIXES

    def __init__(
        self,
        config: Config,
        data_info: ImageDataInfo,
        *,
        load_collection: Callable[[], ImageCollection],
        folder: Path | None = None,
    ) -> None:
        if len(data_info.classes) < 2:
            raise DataError(
                f"the images have {pluralize(len(data_info.classes), 'class')}, and two are needed; put the images of "
                "each class into a folder"
            )
        self.config, self.data_info, self.shape, self.classes = config, data_info, data_info.shape, data_info.classes
        self._load_collection, self._folder = load_collection, folder
        self.spec = ImageClassificationSpec(
            self.shape.height, self.shape.width, self.shape.channels, len(data_info.classes)
        )
        self.examples = image_inputs.example_paths(folder)

    @cached_property
    def collection(self) -> ImageCollection:
        """The images of each split, read on first use."""
        return self._load_collection()

    def data_summary(self) -> list[str]:
        num_classes = f"{len(self.classes)} classes"
        return image_inputs.summarize_images(
            self.collection.splits, self.shape, num_classes, self.collection.first_label
        )

    def fingerprint(self) -> dict[str, str]:
        return image_inputs.fingerprint(self.collection.arrays())

    def data_warnings(self) -> list[str]:
        images = self.collection.split("train")
        unlabeled = int((images.labels[images.indices] < 0).sum())
        warnings = [f"{unlabeled} training images have no class and are left out"] if unlabeled else []
        return [*self.collection.remarks, *warnings]

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of labeled images, in random order."""
        images = self.collection.split("train")
        labeled = np.flatnonzero(images.labels[images.indices] >= 0)
        batches = image_inputs.shuffled_batches(len(labeled), self.config.batch_size, epoch=epoch, seed=seed)
        return [labeled[batch] for batch in batches]

    def collate(self, examples: Indices) -> MixedBatch:
        """Example ids -> augmented images and their classes."""
        pixels, labels = self.collection.split("train").take(examples)
        return augment(to_tensor(pixels), torch.from_numpy(labels), self.config.augmentation)

    def loss(self, model: Any, batch: MixedBatch) -> Loss:
        """Return the cross entropy; for mixed images, with both classes by their weights."""
        features = model.features(batch.images)
        if self.config.mixup == 0:
            total = model.readout.loss(features, batch.labels, smoothing=self.config.smoothing)
            return Loss(total, len(batch.labels))
        compare = partial(cross_entropy, model.readout(features), reduction="none")
        first, second = (
            compare(labels, label_smoothing=self.config.smoothing) for labels in (batch.labels, batch.other_labels)
        )
        return Loss((batch.weight * first + (1 - batch.weight) * second).sum(), len(batch.labels))

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Return `accuracy`, 0 to 1, and `loss` in nats per image."""
        pixels, all_labels = self.collection.split(split).all()
        labels = torch.from_numpy(all_labels[all_labels >= 0])
        scores = self.log_probabilities(model, pixels[all_labels >= 0])
        is_correct = scores.argmax(dim=1) == labels
        record_mean("accuracy", is_correct)
        return {
            "accuracy": is_correct.double().mean().item(),
            "loss": -scores.gather(1, labels[:, None]).mean().item(),
        }

    def log_probabilities(self, model: Any, pixels: Pixels) -> Tensor:
        """Images (n h w c) of 0 … 255 -> log p of every class (n v)."""
        with eval_mode(model) as device:
            parts = [
                model(to_tensor(pixels[low : low + BATCH_IMAGES]).to(device)).float().log_softmax(dim=1).cpu()
                for low in track(range(0, len(pixels), BATCH_IMAGES), -(-len(pixels) // BATCH_IMAGES))
            ]
        return torch.cat(parts)

    def signatures(self) -> dict[str, str]:
        return {"accuracy": "share of images whose most likely class is the true one, one view of each image"}

    def save(self, folder: Path) -> None:
        """Write the image shape, the classes and an example image."""
        self.data_info.save(folder, image_inputs.example_png(self._folder, self._example))

    def _example(self) -> Pixels:
        image: Pixels = self.collection.split("valid").take(np.arange(1))[0][0]
        return image

    def parse_object(self, value: Any) -> Any:
        """Return a Pillow image or a NumPy array as an input; other objects are inputs already."""
        return self.parse_input(value) if image_inputs.is_image_object(value) else value

    def parse_input(self, text: str) -> InputImage:
        """Read an image file and resize it to the model's input size."""
        return image_inputs.resize_image(image_inputs.read_image(text, self.shape.channels), self.shape)

    def predict(
        self, model: Any, inputs: Sequence[InputImage], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Images -> their most likely classes."""
        if not inputs:
            return []
        scores = self.log_probabilities(model, np.stack([image.pixels for image in inputs]))
        best = scores.topk(min(options.n, len(self.classes)), dim=1)
        predictions = []
        for image, values, indices in zip(inputs, best.values.tolist(), best.indices.tolist(), strict=True):
            ranked = [(self.classes[index], score) for index, score in zip(indices, values, strict=True)]
            remarks = image_inputs.format_remarks(image)
            predictions.append(
                [
                    Prediction(name, score=score, ranking_score=score, value=name, remarks=remarks)
                    for name, score in ranked
                ]
            )
        return predictions

    def inspect(self, model: Any, parsed_input: InputImage, options: Options, decoding: Any) -> Inspectable:
        with eval_mode(model) as device:
            return inspect.build_inspectable(
                model, to_tensor(parsed_input.pixels[None]).to(device), parsed_input, classes=self.classes
            )


def build(config: Config, folder: Path | None = None) -> ImageClassification:
    """Return the task with the image shape and classes of the data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    collection = dataset.load_collection(image_inputs.image_source(config))
    info = ImageDataInfo(collection.shape, collection.classes)
    return ImageClassification(config, info, load_collection=lambda: collection)


def load(config: Config, folder: Path) -> ImageClassification:
    """Return the task of a run folder; the data is read only when it is used."""
    info, source = image_inputs.load_data_info(folder), image_inputs.image_source(config)
    return ImageClassification(config, info, load_collection=lambda: dataset.load_collection(source), folder=folder)
