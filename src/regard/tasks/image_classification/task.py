"""Image classification: an image in, its class out."""

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

from regard.core.data_specs import ImageClassificationSpec
from regard.core.errors import ConfigError, DataError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.task import Prediction, Task
from regard.data.images import dataset
from regard.data.images.augment import Augmentation, MixedBatch, augment
from regard.data.images.dataset import ImageCollection, ImageSource
from regard.data.images.image_files import Pixels
from regard.data.images.loader import TargetShape
from regard.data.images.resize import Fit
from regard.tasks._shared import image_inputs
from regard.tasks._shared.image_inputs import ImageDataInfo, InputImage, to_tensor
from regard.tasks.image_classification import inspect

BATCH_IMAGES = 256  # images that are classified at once


@dataclass(frozen=True)
class Config:
    """Which images, how large, and how they are changed in training. Without a path, the digits of scikit-learn."""

    path: Path | None = None  # a folder by class, an archive, idx or .npz files of images
    dataset: str = dataset.BUILT_IN  # without a path: digits, or hf:… for Hugging Face
    height: int = 0  # rows that every image is brought to; 0: those of the first image
    width: int = 0  # columns that every image is brought to; 0: those of the first image
    channels: int = 0  # 1: grey, 3: colour, 0: as the first image
    fit: Fit = "stretch"  # how another size is brought to that: stretch, crop the middle, or pad with a border
    fill: int = 0  # brightness of the border, 0 … 255
    batch_size: int = 64  # images in a batch
    smoothing: float = 0.0  # of the labels: this share of the probability is spread over all classes
    seed: int = 1  # of splits that are not given
    crop: int = 0  # training images are moved by at most so many pixels to any side, the border filled with the darkest
    flip: float = 0.0  # how often left and right change places in training
    shift: float = 0.0  # training images are moved, turned, slanted and scaled by at most this share
    erase: float = 0.0  # how often a rectangle of a training image is replaced by noise
    mixup: float = 0.0  # training images are mixed in pairs, their shares drawn from Beta(mixup, mixup); 0: not

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"rows={self.batch_size} must be at least 1")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"smoothing={self.smoothing} must be at least 0 and below 1")
        _ = self.augmentation  # what is wrong with it is said at once

    @property
    def augmentation(self) -> Augmentation:
        """How training images are changed."""
        return Augmentation(self.crop, self.flip, self.shift, self.erase, self.mixup)


TINY = Config(batch_size=8)  # for tests


@dataclass(frozen=True)
class Options:
    """What one can ask for."""

    n: int = 3  # how many classes of each image, likeliest first

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n={self.n}: ask for at least one")


class ImageClassification(Task):
    """Images with classes: batches, cross entropy, accuracy."""

    target_metric, throughput_unit, input_suffixes = (
        TargetMetric("accuracy", higher_is_better=True),
        "images",
        image_inputs.INPUT_SUFFIXES,
    )

    def __init__(
        self,
        config: Config,
        data_info: ImageDataInfo,
        *,
        load_collection: Callable[[], ImageCollection],
        folder: Path | None = None,
    ) -> None:
        if len(data_info.classes) < 2:
            raise DataError(f"the images have {len(data_info.classes)} classes; put those of each class into a folder")
        self.config, self.data_info, self.shape, self.classes = config, data_info, data_info.shape, data_info.classes
        self._read, self._folder = load_collection, folder
        self.spec = ImageClassificationSpec(
            self.shape.height, self.shape.width, self.shape.channels, len(data_info.classes)
        )
        self.examples = image_inputs.example_paths(folder)

    @cached_property
    def collection(self) -> ImageCollection:
        """The images of each split; read when first asked for."""
        return self._read()

    def data_summary(self) -> list[str]:
        """How many images there are, their size and classes."""
        known = f"{len(self.classes)} classes"
        return image_inputs.summarize_images(self.collection.splits, self.shape, known, self.collection.first_label)

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return image_inputs.fingerprint(self.collection.arrays())

    def data_warnings(self) -> list[str]:
        """What a user should know of the data: what was converted or left out, and images without a class."""
        images = self.collection.split("train")
        without = int((images.labels[images.indices] < 0).sum())
        told = [f"{without} training images have no class and are left out"] if without else []
        return [*self.collection.remarks, *told]

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of images with a class, in random order."""
        images = self.collection.split("train")
        with_class = np.flatnonzero(images.labels[images.indices] >= 0)
        return [
            with_class[b]
            for b in image_inputs.shuffled_batches(len(with_class), self.config.batch_size, epoch=epoch, seed=seed)
        ]

    def collate(self, examples: Indices) -> MixedBatch:
        """Example numbers -> images and classes, changed as the augmentation says."""
        pixels, labels = self.collection.split("train").take(examples)
        return augment(to_tensor(pixels), torch.from_numpy(labels), self.config.augmentation)

    def loss(self, model: Any, batch: MixedBatch) -> Loss:
        """The training loss: cross entropy with both classes of a mixed image, by their shares."""
        features = model.features(batch.images)
        if self.config.mixup == 0:
            total = model.readout.loss(features, batch.labels, smoothing=self.config.smoothing)
            return Loss(total, len(batch.labels))
        compare = partial(cross_entropy, model.readout(features), reduction="none")
        each = [compare(labels, label_smoothing=self.config.smoothing) for labels in (batch.labels, batch.other_labels)]
        return Loss((batch.weight * each[0] + (1 - batch.weight) * each[1]).sum(), len(batch.labels))

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """`accuracy`, the share of images whose likeliest class is theirs in percent, and `loss` in nats per image."""
        pixels, numbers = self.collection.split(split).all()
        labels = torch.from_numpy(numbers[numbers >= 0])
        scores = self.log_probabilities(model, pixels[numbers >= 0])
        right = (scores.argmax(dim=1) == labels).double().mean().item()
        return {"accuracy": 100 * right, "loss": -scores.gather(1, labels[:, None]).mean().item()}

    def log_probabilities(self, model: Any, pixels: Pixels) -> Tensor:
        """Images (n h w c) of 0 … 255 -> log p of every class (n v)."""
        with eval_mode(model) as device:
            parts = [
                model(to_tensor(pixels[low : low + BATCH_IMAGES]).to(device)).float().log_softmax(dim=1).cpu()
                for low in track(range(0, len(pixels), BATCH_IMAGES), -(-len(pixels) // BATCH_IMAGES))
            ]
        return torch.cat(parts)

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        return {"accuracy": "share of images whose likeliest class is theirs, percent, one view of each image"}

    def save(self, folder: Path) -> None:
        """Write the shape and the classes, and an image to try."""
        self.data_info.save(folder, image_inputs.example_png(self._folder, self._example))

    def _example(self) -> Pixels:
        image: Pixels = self.collection.split("valid").take(np.arange(1))[0][0]
        return image

    def parse_input(self, text: str) -> InputImage:
        """The path of an image file -> the image in the size of the model."""
        return image_inputs.resize_image(image_inputs.read_image(text, self.shape.channels), self.shape)

    def predict(
        self, model: Any, inputs: Sequence[InputImage], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Images -> their likeliest classes."""
        if not inputs:
            return []
        scores = self.log_probabilities(model, np.stack([given.pixels for given in inputs]))
        best = scores.topk(min(options.n, len(self.classes)), dim=1)
        answers = []
        for given, values, numbers in zip(inputs, best.values.tolist(), best.indices.tolist(), strict=True):
            names = [self.classes[number] for number in numbers]
            told = image_inputs.format_remarks(given)
            each = zip(names, values, strict=True)
            answers.append(
                [Prediction(name, score=score, rank=score, value=name, remarks=told) for name, score in each]
            )
        return answers

    def inspect(self, model: Any, parsed_input: InputImage, options: Options, decoding: Any) -> Inspectable:
        """An image -> its class, and where the model looked."""
        with eval_mode(model) as device:
            return inspect.build_inspectable(
                model, to_tensor(parsed_input.pixels[None]).to(device), parsed_input, classes=self.classes
            )


def _origin(config: Config) -> ImageSource:
    wanted = TargetShape(config.height, config.width, config.channels, config.fit, config.fill)
    return ImageSource(config.path, config.dataset, wanted, seed=config.seed)


def build(config: Config, folder: Path | None = None) -> ImageClassification:
    """A config -> the task with the shape and the classes of the data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    found = dataset.load_collection(_origin(config))
    return ImageClassification(config, ImageDataInfo(found.shape, found.classes), load_collection=lambda: found)


def load(config: Config, folder: Path) -> ImageClassification:
    """A config and a run folder -> the task of that run; the data is not needed until it is asked for."""
    known = image_inputs.load_data_info(folder)
    return ImageClassification(
        config, known, load_collection=lambda: dataset.load_collection(_origin(config)), folder=folder
    )
