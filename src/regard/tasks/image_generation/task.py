"""Images as a task: they are made pixel by pixel, of a class, around a part that is given, or from a smaller image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.core.data_specs import ImageGenerationSpec as PixelSizes
from regard.core.errors import ConfigError, DataError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.protocols.image_generator import ImageGenerator
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data.builtin import digits
from regard.data.images import dataset
from regard.data.images.dataset import HoldOut, ImageCollection, ImageSource
from regard.data.images.image_files import Pixels
from regard.data.images.loader import TargetShape
from regard.data.images.resize import Fit, check_levels
from regard.decoding.strategies import sample
from regard.tasks._shared import image_inputs
from regard.tasks._shared.image_inputs import ImageDataInfo, InputImage
from regard.tasks.image_generation import inspect
from regard.tasks.image_generation.generate import generate, teacher_forcing_loss
from regard.tasks.image_generation.levels import ImageBatch, decode, encode, histogram_bits, quality, upscale_bicubic

MAX_UPSCALED_IMAGES = 64  # images of a split whose enlargement is compared with bicubic interpolation


@dataclass(frozen=True)
class Config:
    """Which images, how large and in how many levels. Without a path, the handwritten digits of scikit-learn."""

    path: Path | None = None  # a folder (by class), an archive, idx or .npz files of images
    dataset: str = dataset.BUILT_IN  # without a path: digits, or hf:… for Hugging Face
    height: int = 0  # rows that every image is brought to; 0: those of the first image
    width: int = 0  # columns that every image is brought to; 0: those of the first image
    channels: int = 0  # 1: grey, 3: colour, 0: as the first image
    fit: Fit = "stretch"  # how another size is brought to that: stretch, crop the middle, or pad with a border
    fill: int = 0  # brightness of the border, 0 … 255
    intensity_levels: int = 0  # of brightness that are told apart, 2 … 256; 0: 17 for the digits, else 256
    rounding: Literal["nearest", "random"] = "nearest"  # to which level; random: either, the nearer more often
    low_resolution: tuple[int, int] = (
        0,
        0,
    )  # rows and columns of the image that is enlarged; 0: images are made from nothing
    class_conditional: bool = True  # whether the class of an image is told to the model
    condition_dropout: float = 0.1  # how often it is not told in training, so that it need not be given later
    flip: float = 0.0  # how often left and right change places in training
    batch_size: int = 32  # images in a batch
    valid: int = 1000  # images of the validation split that are looked at
    held_out: HoldOut = "image"  # what is held out for splits that the data does not have: images, or whole classes
    seed: int = 1  # of splits that are not given

    def __post_init__(self) -> None:
        if min(self.batch_size, self.valid) < 1 or min(self.low_resolution) < 0:
            raise ConfigError("rows and valid must be at least 1, small at least 0")
        if not (0 <= self.condition_dropout <= 1 and 0 <= self.flip <= 1):
            raise ConfigError(f"drop={self.condition_dropout}, flip={self.flip}: shares lie in 0 … 1")
        if self.intensity_levels:
            check_levels(self.intensity_levels)

    @property
    def num_levels(self) -> int:
        """The number of levels."""
        built_in = self.path is None and self.dataset == dataset.BUILT_IN
        return self.intensity_levels or (digits.LEVELS if built_in else 256)


TINY = Config(batch_size=8, valid=16)  # for tests


@dataclass(frozen=True)
class Options:
    """What one can ask for. An image that is given is completed, or enlarged where the run enlarges."""

    class_: str = ""  # the class of the images; none: any
    n: int = 16  # images that are made from nothing; of what is given, one each
    rows: int = 0  # rows of the given image that are kept; 0: all, of an image as high as the canvas half of them
    temperature: float | None = None  # above 1 more surprising, 0 the likeliest; none: 1, or 0 where it is enlarged
    top_k: int = 0  # only the so many likeliest levels are drawn; 0: all
    top_p: float = 1.0  # only the likeliest levels that have this share of the probability are drawn
    seed: int = 1  # another one gives other images
    scale: int = 0  # pixels of the file for each pixel, along each axis; 0: so that single pixels can be seen

    def __post_init__(self) -> None:
        if self.n < 1 or min(self.rows, self.scale) < 0:
            raise ConfigError(f"n={self.n}, rows={self.rows}, scale={self.scale}: ask for one image at least")

    def sampling_config(self, *, upscaling: bool) -> sample.Config | None:
        """How levels are drawn; None: the likeliest is taken."""
        heat = (0.0 if upscaling else 1.0) if self.temperature is None else self.temperature
        settings = {"top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        return sample.Config(temperature=heat, **settings) if heat else None  # type: ignore[arg-type]  # by name


class ImageGeneration(Task):
    """Images as sequences of levels: batches, bits per dimension, new images."""

    evaluation_mode = "each pixel foretold from the true ones before it"
    target_metric, throughput_unit, input_suffixes = (
        TargetMetric("bits", higher_is_better=False),
        "levels",
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
        self.config, self.data_info, self.shape = config, data_info, data_info.shape
        self._read, self._folder = load_collection, folder
        told = data_info.classes if config.class_conditional else ()
        shape, small = self.shape, config.low_resolution
        if min(small) and (shape.height % small[0] or shape.width % small[1]):
            raise ConfigError(
                f"small={list(small)}: an image of {shape.height}x{shape.width} cannot be cut into so many squares"
            )
        small = small if min(small) else (0, 0)
        self.spec = PixelSizes(shape.height, shape.width, shape.channels, config.num_levels, len(told), small)
        self.verbs = ("upscale",) if min(small) else ("generate", "complete")
        self.examples = (*image_inputs.example_paths(folder), *(() if min(small) else ("",)))

    @property
    def is_upscaling(self) -> bool:
        """Whether the run makes large images of small ones."""
        enlarging: bool = self.spec.low_res_size != (0, 0)
        return enlarging

    @cached_property
    def collection(self) -> ImageCollection:
        """The images of each split; read when first asked for."""
        return self._read()

    def data_summary(self) -> list[str]:
        """How many images there are, their size, levels and classes."""
        known = f"{self.spec.levels} levels", f"{self.spec.num_classes} classes told"
        return image_inputs.summarize_images(self.collection.splits, self.shape, *known, self.collection.first_label)

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return image_inputs.fingerprint(self.collection.arrays())

    def data_warnings(self) -> list[str]:
        """What a user should know of the data: what was converted or left out."""
        return list(self.collection.remarks)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of images, in random order."""
        return image_inputs.shuffled_batches(
            len(self.collection.split("train")), self.config.batch_size, epoch=epoch, seed=seed
        )

    def collate(self, examples: Indices) -> ImageBatch:
        """Example numbers -> levels and subjects, with what chance decides: flips, rounding, classes not told."""
        pixels, labels = self.collection.split("train").take(examples)
        flipped = (torch.rand(len(pixels)) < self.config.flip).numpy()[:, None, None, None]
        pixels = np.where(flipped, pixels[:, :, ::-1], pixels) if self.config.flip else pixels
        silent = (torch.rand(len(labels)) < self.config.condition_dropout).numpy()
        draws = torch.rand(pixels.shape).numpy() if self.config.rounding == "random" else None
        return encode(pixels, np.where(silent, -1, labels), self.spec, draws=draws)

    def loss(self, model: ImageGenerator, batch: ImageBatch) -> Loss:
        """The training loss: -log p of every level, summed."""
        total = teacher_forcing_loss(model, batch.pixels, batch.condition, num_levels=self.spec.levels)
        return Loss(total, batch.pixels.numel())

    def split(self, name: str) -> tuple[Pixels, Any]:
        """Pixels and classes of a split, of valid as many as are looked at."""
        images = self.collection.split(name)
        few = min(len(images), self.config.valid) if name == "valid" else len(images)
        return images.take(np.arange(few))

    def evaluate(self, model: ImageGenerator, split: str, decoding: Any) -> dict[str, float]:
        """`bits` per dimension, a dimension being one channel of a pixel, and `nats` per image."""
        pixels, labels = self.split(split)
        total, random = 0.0, np.random.default_rng(0)  # where levels are drawn, they are drawn once and for all
        with eval_mode(model) as device:
            for low in track(range(0, len(pixels), self.config.batch_size), -(-len(pixels) // self.config.batch_size)):
                part = pixels[low : low + self.config.batch_size]
                draws = random.random(part.shape, dtype=np.float32) if self.config.rounding == "random" else None
                batch = encode(part, labels[low : low + self.config.batch_size], self.spec, draws=draws)
                batch = map_tensors(batch, lambda x: x.to(device))
                total += self.loss(model, batch).total.item()
        return {"bits": total / pixels.size / math.log(2), "nats": total / len(pixels)}

    def extra_metrics(self, model: ImageGenerator, split: str, decoding: Any) -> dict[str, float]:
        """What a histogram of levels needs; where images are enlarged, the likeliest ones beside bicubic ones."""
        truth, _ = self.split(split)
        scores = {"histogram_bits": histogram_bits(self.collection.split("train").all()[0], truth, self.spec.levels)}
        if not self.is_upscaling:
            return scores
        truth = truth[:MAX_UPSCALED_IMAGES]
        subject = encode(truth, np.full(len(truth), -1), self.spec).condition
        enlarged = decode(generate(model, subject, None, sizes=self.spec, sampling=None), self.spec)
        small = decode(subject.low_res, self.spec, size=self.spec.low_res_size)
        theirs = {f"bicubic_{name}": value for name, value in quality(upscale_bicubic(small, self.spec), truth).items()}
        return scores | quality(enlarged, truth) | theirs

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        levels, rounding = self.spec.levels, self.config.rounding
        drawn = "drawn once at random between the two nearest" if rounding == "random" else "the nearest"
        told = "classes told" if self.spec.num_classes else "no classes told"
        bits = f"-log2 p per channel of a pixel, {levels} equally spaced levels of 0 … 255, {drawn}; {told}"
        return {"bits": bits, "nats": "-log p per image, of the same levels"}

    def save(self, folder: Path) -> None:
        """Write the shape and the classes, and an image to try: to be completed, or to be enlarged."""
        self.data_info.save(folder, image_inputs.example_png(self._folder, self._example))

    def _example(self) -> Pixels:
        image: Pixels = self.split("valid")[0][:1]
        if self.is_upscaling:
            small = encode(image, np.full(1, -1), self.spec).condition.low_res
            image = decode(small, self.spec, size=self.spec.low_res_size)
        first: Pixels = image[0]
        return first

    def parse_input(self, text: str) -> InputImage | None:
        """The path of an image file -> the image; an empty text is nothing, from which images are made."""
        return image_inputs.read_image(text, self.shape.channels) if text.strip() else None

    def predict(
        self, model: ImageGenerator, inputs: Sequence[InputImage | None], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Images, or nothing -> each completed or enlarged, or as many new ones as are asked for on one sheet."""
        how = options.sampling_config(upscaling=self.is_upscaling)
        label = self._class(options.class_)
        answers = []
        for given in inputs:
            count = options.n if given is None else 1
            if given is None and self.is_upscaling:
                raise DataError("this run enlarges images; give the path of a small one")
            asked = inspect.prepare(given, self.spec, keep_rows=options.rows, labels=np.full(count, label))
            images = decode(
                generate(model, asked.condition, asked.known_levels, sizes=self.spec, sampling=how), self.spec
            )
            answers.append([inspect.to_prediction(images, asked.image, scale=options.scale, label=options.class_)])
        return answers

    def _class(self, name: str) -> int:
        return image_inputs.class_index(name, self.data_info.classes[: self.spec.num_classes])

    def inspect(
        self, model: ImageGenerator, parsed_input: InputImage | None, options: Options, decoding: Any
    ) -> Inspectable:
        """An image -> what the model looked at when it foretold each of its places."""
        labels = np.full(1, self._class(options.class_))
        if parsed_input is None or self.is_upscaling:
            asked = inspect.prepare(parsed_input, self.spec, keep_rows=options.rows, labels=labels)
            how = options.sampling_config(upscaling=self.is_upscaling)
            levels = generate(model, asked.condition, asked.known_levels, sizes=self.spec, sampling=how)
        else:
            parsed_input = image_inputs.resize_image(parsed_input, self.shape)
            levels, subject = encode(parsed_input.pixels[None], labels, self.spec)
            asked = inspect.PreparedRequest(parsed_input, subject)
        with eval_mode(model):
            size = self.shape.height, self.shape.width
            title = inspect.prediction_title(asked.image, size, label=options.class_, count=1)
            return inspect.build_inspectable(model, levels, asked, sizes=self.spec, title=title)


def _origin(config: Config) -> ImageSource:
    wanted = TargetShape(config.height, config.width, config.channels, config.fit, config.fill)
    return ImageSource(config.path, config.dataset, wanted, config.held_out, config.seed)


def build(config: Config, folder: Path | None = None) -> ImageGeneration:
    """A config -> the task with the shape and the classes of the data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    found = dataset.load_collection(_origin(config))
    return ImageGeneration(config, ImageDataInfo(found.shape, found.classes), load_collection=lambda: found)


def load(config: Config, folder: Path) -> ImageGeneration:
    """A config and a run folder -> the task of that run; the data is not needed until it is asked for."""
    known = image_inputs.load_data_info(folder)
    return ImageGeneration(
        config, known, load_collection=lambda: dataset.load_collection(_origin(config)), folder=folder
    )
