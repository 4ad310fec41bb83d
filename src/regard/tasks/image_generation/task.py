"""Image generation: images as sequences of intensity levels, bits per dimension, generation, completion, upscaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.core.config import check_fields
from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import ConfigError, DataError
from regard.core.example_statistics import record_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.protocols.image_generator import FittedToImages, ImageGenerator
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data.builtin import digits
from regard.data.images import dataset
from regard.data.images.dataset import HoldOut, ImageCollection
from regard.data.images.image_files import Pixels
from regard.data.images.resize import Fit, check_levels
from regard.decoding.strategies import sample
from regard.tasks._shared import image_inputs
from regard.tasks._shared.image_inputs import ImageDataInfo, InputImage
from regard.tasks.image_generation import baselines, inspect
from regard.tasks.image_generation.baselines import Levels
from regard.tasks.image_generation.generate import (
    Choice,
    LevelMode,
    generate,
    prediction_title,
    teacher_forcing_loss,
    to_prediction,
)
from regard.tasks.image_generation.levels import ImageBatch, decode, encode, upscale_bicubic
from regard.tasks.image_generation.metrics import histogram_bits, quality
from regard.tasks.image_generation.prompts import KeptPixels, PreparedRequest, prepare, prepare_tiles

DEFAULT_IMAGES = 16  # on one sheet
MAX_INITIAL_IMAGES = 512  # training images to which the linear prediction is fitted
MAX_BASELINE_IMAGES = 8192  # training images that baselines are fitted to
MAX_UPSCALED_IMAGES = 64  # images of a split that are upscaled and compared with bicubic interpolation


@dataclass(frozen=True)
class Config:
    """Image source, size and levels. Without a path, the handwritten digits of scikit-learn are used."""

    path: Path | None = None  # a folder (by class), an archive, idx or .npz files of images
    dataset: str = dataset.BUILT_IN  # without a path: digits, or hf:… for Hugging Face
    height: int = 0  # rows that every image is resized to; 0: those of the first image
    width: int = 0  # columns that every image is resized to; 0: those of the first image
    channels: int = 0  # 1: grey, 3: colour, 0: as the first image
    fit: Fit = "stretch"  # resizing of other sizes: stretch, crop the middle, or pad with a border
    fill: int = 0  # brightness of the border, 0 … 255
    intensity_levels: int = 0  # levels of brightness, 2 … 256; 0: 17 for the digits, else 256
    rounding: Literal["nearest", "random"] = (
        "nearest"  # rounding to a level; random: either neighbour, the nearer one more often
    )
    low_resolution: tuple[int, int] = (
        0,
        0,
    )  # rows and columns of the image to upscale; 0: no upscaling
    class_conditional: bool = True  # condition the model on the class of an image
    condition_dropout: float = 0.1  # probability that the class is dropped in training, so that it is optional later
    flip: float = 0.0  # probability of a horizontal flip in training
    batch_size: int = 32  # images in a batch
    valid: int = 1000  # images of the validation split that are scored
    held_out: HoldOut = "image"  # unit that is held out for missing splits: images, or entire classes
    seed: int = 1  # seed of splits that the data does not have

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("batch_size", "valid"))
        if min(self.low_resolution) < 0:
            raise ConfigError(f"low_resolution={list(self.low_resolution)} must be at least 0")
        for name in ("condition_dropout", "flip"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be between 0 and 1")
        if self.intensity_levels:
            check_levels(self.intensity_levels)

    @property
    def num_levels(self) -> int:
        """The number of levels: the setting, or the default of the data."""
        built_in = self.path is None and self.dataset == dataset.BUILT_IN
        return self.intensity_levels or (digits.LEVELS if built_in else 256)


TINY = Config(batch_size=8, valid=16)  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request. An input image is completed, or upscaled by a run that was trained to upscale."""

    class_: str = ""  # class of the images; none: any
    n: int | None = None  # number of images without an input, 16 by default; one per input image
    rows: int = 0  # rows of the input image to keep; 0: all, or half of an image as high as the canvas
    region: str = ""  # a region of the image to generate, the rest is kept: left,top,right,bottom, e.g. 0,0.5,1,1
    guidance: float = 1.0  # above 1: the difference that the class makes to log p counts this many times
    temperature: float | None = None  # above 1: more diverse, 0: the most likely level; none: 1, or `mean` to upscale
    top_k: int = 0  # sample from the k most likely levels; 0: from all
    top_p: float = 1.0  # sample from the most likely levels that have this share of the probability
    seed: int = 1  # seed of the samples
    scale: int = 0  # pixels of the file per pixel of the image, along each axis; 0: large enough to see single pixels

    def __post_init__(self) -> None:
        check_fields(self, at_least_0=("rows", "scale"))
        self.kept_pixels()
        if not 1 <= self.guidance < math.inf:
            raise ConfigError(f"guidance={self.guidance} must be at least 1 and finite; 1 is the class alone")
        if self.guidance != 1 and not self.class_:
            raise ConfigError(f"guidance={self.guidance} strengthens the condition on a class; give class_=…")
        if self.n is not None and self.n < 1:
            raise ConfigError(f"n={self.n} must be at least 1")
        if self.temperature == 0 and (self.n or 1) > 1:
            raise ConfigError(f"n={self.n}: all images are identical at temperature=0; use n=1")

    @property
    def num_images(self) -> int:
        """The number of images without an input: at temperature 0 one, as all are identical."""
        return self.n or (1 if self.temperature == 0 else DEFAULT_IMAGES)

    def kept_pixels(self) -> KeptPixels:
        """Return the pixels of an input image that are kept."""
        return KeptPixels(self.rows, image_inputs.parse_box(self.region, option="region") if self.region else None)

    def choice(self, *, upscaling: bool) -> Choice:
        """Return how levels are chosen: sampled, the most likely, or by default for upscaling the mean."""
        if self.temperature is None and upscaling:
            return LevelMode.MEAN
        temperature = 1.0 if self.temperature is None else self.temperature
        if not temperature:
            return LevelMode.MOST_LIKELY
        return sample.Config(temperature=temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)


class ImageGeneration(Task):
    """Image generation task: batches of levels, bits per dimension, new images."""

    spec: ImageGenerationSpec
    evaluation_mode = "each pixel predicted from the true pixels before it"
    target_metric = TargetMetric("bits", higher_is_better=False)
    throughput_unit, input_suffixes = "levels", image_inputs.INPUT_SUFFIXES

    def __init__(
        self,
        config: Config,
        data_info: ImageDataInfo,
        *,
        load_collection: Callable[[], ImageCollection],
        folder: Path | None = None,
    ) -> None:
        self.config, self.data_info, self.shape = config, data_info, data_info.shape
        self._load_collection, self._folder = load_collection, folder
        classes = data_info.classes if config.class_conditional else ()
        shape, low_res_size = self.shape, config.low_resolution
        if min(low_res_size) and (shape.height % low_res_size[0] or shape.width % low_res_size[1]):
            raise ConfigError(
                f"low_resolution={list(low_res_size)}: must divide the image size {shape.height}x{shape.width}"
            )
        low_res_size = low_res_size if min(low_res_size) else (0, 0)
        self.spec = ImageGenerationSpec(
            shape.height, shape.width, shape.channels, config.num_levels, len(classes), low_res_size
        )
        self.verbs = ("upscale",) if self.is_upscaling else ("generate", "complete")
        no_upscaling = "data.low_resolution=[0, 0]"
        self.verb_settings = (
            {"generate": no_upscaling, "complete": no_upscaling}
            if self.is_upscaling
            else {"upscale": f"data.low_resolution=[{max(1, shape.height // 4)}, {max(1, shape.width // 4)}]"}
        )
        self.examples = (*image_inputs.example_paths(folder), *(() if self.is_upscaling else ("",)))

    @property
    def is_upscaling(self) -> bool:
        """True if the run upscales images."""
        return self.spec.low_res_size != (0, 0)

    @cached_property
    def collection(self) -> ImageCollection:
        """The images of each split, read on first use."""
        return self._load_collection()

    def data_summary(self) -> list[str]:
        details = f"{self.spec.levels} levels", f"{self.spec.num_classes} classes as conditions"
        return image_inputs.summarize_images(self.collection.splits, self.shape, *details, self.collection.first_label)

    def fingerprint(self) -> dict[str, str]:
        return image_inputs.fingerprint(self.collection.arrays())

    def data_warnings(self) -> list[str]:
        return list(self.collection.remarks)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of images, in random order."""
        return image_inputs.shuffled_batches(
            len(self.collection.split("train")), self.config.batch_size, epoch=epoch, seed=seed
        )

    def collate(self, examples: Indices) -> ImageBatch:
        """Example ids -> levels and conditions, with random flips, rounding and dropped classes."""
        pixels, labels = self.collection.split("train").take(examples)
        flipped = (torch.rand(len(pixels)) < self.config.flip).numpy()[:, None, None, None]
        pixels = np.where(flipped, pixels[:, :, ::-1], pixels) if self.config.flip else pixels
        is_dropped = (torch.rand(len(labels)) < self.config.condition_dropout).numpy()
        draws = torch.rand(pixels.shape).numpy() if self.config.rounding == "random" else None
        return encode(pixels, np.where(is_dropped, -1, labels), self.spec, draws=draws)

    def initialize(self, model: ImageGenerator) -> None:
        """Fit the linear prediction of a model to training images, with `flip` to their mirror images too."""
        if not isinstance(model, FittedToImages):
            return
        pixels = self._training_images(MAX_INITIAL_IMAGES)
        levels, condition = encode(pixels, np.full(len(pixels), -1), self.spec)
        model.fit_initial(levels, condition)

    def _training_images(self, limit: int) -> Pixels:
        """Return images spread over the training split in its order, each next to its mirror image with `flip`."""
        count = len(self.collection.split("train"))
        examples = np.unique(np.linspace(0, count - 1, min(count, limit)).astype(np.int64))
        pixels, _ = self.collection.split("train").take(examples)
        if not self.config.flip:
            return pixels
        return np.stack([pixels, pixels[:, :, ::-1]], axis=1).reshape(-1, *pixels.shape[1:])

    def baselines(self, split: str) -> dict[str, float]:
        """Return bits of a linear map, a table of counts and WebP; for upscaling, PSNR and SSIM of ridge regression."""
        truth, _ = self.split(split)
        if self.is_upscaling:
            train = self._training_images(MAX_INITIAL_IMAGES)
            return baselines.upscaling_quality(train, truth[:MAX_UPSCALED_IMAGES], self.spec)
        levels = self._levels(self._training_images(MAX_BASELINE_IMAGES))
        return baselines.bits(levels, self._levels(truth), self.spec)

    def _levels(self, pixels: Pixels) -> Levels:
        """Return the levels of images (b h w c), rounded as in an evaluation."""
        random = np.random.default_rng(0)
        draws = random.random(pixels.shape, dtype=np.float32) if self.config.rounding == "random" else None
        levels = encode(pixels, np.full(len(pixels), -1), self.spec, draws=draws).pixels
        array: Levels = levels.view(pixels.shape).numpy()
        return array

    def loss(self, model: ImageGenerator, batch: ImageBatch) -> Loss:
        """Return -log p, summed over all levels."""
        total = teacher_forcing_loss(model, batch.pixels, batch.condition, num_levels=self.spec.levels)
        return Loss(total, batch.pixels.numel())

    def split(self, name: str) -> tuple[Pixels, Any]:
        """Return pixels and classes of a split; of the validation split only `valid` images."""
        images = self.collection.split(name)
        count = min(len(images), self.config.valid) if name == "valid" else len(images)
        return images.take(np.arange(count))

    def evaluate(self, model: ImageGenerator, split: str, decoding: Any) -> dict[str, float]:
        """Return `bits` per dimension (one channel of a pixel), and `nats` per image."""
        pixels, labels = self.split(split)
        total, random = 0.0, np.random.default_rng(0)  # random rounding is the same in every evaluation
        batch_nats: list[float] = []
        with eval_mode(model) as device:
            for low in track(range(0, len(pixels), self.config.batch_size), -(-len(pixels) // self.config.batch_size)):
                part = pixels[low : low + self.config.batch_size]
                draws = random.random(part.shape, dtype=np.float32) if self.config.rounding == "random" else None
                batch = encode(part, labels[low : low + self.config.batch_size], self.spec, draws=draws)
                batch = map_tensors(batch, lambda x: x.to(device))
                batch_nats.append(self.loss(model, batch).total.item())
                total += batch_nats[-1]
        starts = np.arange(0, len(pixels), self.config.batch_size)
        sizes = np.diff(np.append(starts, len(pixels)))
        bits_scale = len(pixels) / pixels.size / math.log(2)  # bits per dimension of a nat per image
        record_mean("bits", batch_nats, weights=sizes, scale=bits_scale, num_examples=len(pixels))
        record_mean("nats", batch_nats, weights=sizes, num_examples=len(pixels))
        return {"bits": total / pixels.size / math.log(2), "nats": total / len(pixels)}

    def extra_metrics(self, model: ImageGenerator, split: str, decoding: Any) -> dict[str, float]:
        """Return the bits of a histogram baseline; for upscaling, the quality of the model and of bicubic upscaling."""
        truth, _ = self.split(split)
        scores = {"histogram_bits": histogram_bits(self.collection.split("train").all()[0], truth, self.spec.levels)}
        if not self.is_upscaling:
            return scores
        truth = truth[:MAX_UPSCALED_IMAGES]
        condition = encode(truth, np.full(len(truth), -1), self.spec).condition
        low_res = decode(condition.low_res, self.spec, size=self.spec.low_res_size)
        images = {"bicubic_": upscale_bicubic(low_res, self.spec)}
        for prefix, choice in (("", LevelMode.MOST_LIKELY), ("mean_", LevelMode.MEAN)):
            images[prefix] = decode(generate(model, condition, None, sizes=self.spec, choice=choice), self.spec)
        for prefix, upscaled in images.items():
            scores |= {f"{prefix}{name}": value for name, value in quality(upscaled, truth).items()}
        return scores

    def signatures(self) -> dict[str, str]:
        levels, rounding = self.spec.levels, self.config.rounding
        rounded = "rounded once at random to one of the two nearest" if rounding == "random" else "the nearest"
        condition = "conditioned on classes" if self.spec.num_classes else "without classes"
        bits = f"-log2 p per channel of a pixel, {levels} equally spaced levels of 0 … 255, {rounded}; {condition}"
        return {"bits": bits, "nats": "-log p per image, of the same levels"}

    def save(self, folder: Path) -> None:
        """Write the image shape, the classes and an example image to complete or to upscale."""
        self.data_info.save(folder, image_inputs.example_png(self._folder, self._example))

    def _example(self) -> Pixels:
        image: Pixels = self.split("valid")[0][:1]
        if self.is_upscaling:
            low_res = encode(image, np.full(1, -1), self.spec).condition.low_res
            image = decode(low_res, self.spec, size=self.spec.low_res_size)
        first: Pixels = image[0]
        return first

    def parse_object(self, value: Any) -> Any:
        """Return a Pillow image or a NumPy array as an input; other objects are inputs already."""
        return self.parse_input(value) if image_inputs.is_image_object(value) else value

    def parse_input(self, text: str) -> InputImage | None:
        """Read an image file; an empty text is None: generation without an input image."""
        return image_inputs.read_image(text, self.shape.channels) if str(text).strip() else None

    def predict(
        self, model: ImageGenerator, inputs: Sequence[InputImage | None], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Images -> completed or upscaled images; None -> `options.n` new images on one sheet."""
        choice = options.choice(upscaling=self.is_upscaling)
        predictions = []
        for image in inputs:
            request = self._prepare(image, options)
            levels = generate(
                model,
                request.condition,
                request.known_levels,
                sizes=self.spec,
                choice=choice,
                guidance=self._guidance(options),
            )
            images = decode(levels, self.spec)
            images = images if request.tiles is None else request.tiles.join(images)[None]
            predictions.append([to_prediction(images, request.image, scale=options.scale, label=options.class_)])
        return predictions

    def _prepare(self, image: InputImage | None, options: Options) -> PreparedRequest:
        label = self._class_index(options.class_)
        if image is None and self.is_upscaling:
            raise DataError("this run upscales images; give the path of a small image")
        tiled = prepare_tiles(image, self.spec, label=label) if image is not None and self.is_upscaling else None
        count = options.num_images if image is None else 1
        return tiled or prepare(image, self.spec, kept=options.kept_pixels(), labels=np.full(count, label))

    def _guidance(self, options: Options) -> float:
        if options.guidance != 1 and not self.config.condition_dropout:
            raise DataError(
                f"guidance={options.guidance}: the model was always trained with a class, so it has no distribution "
                "without one; train with data.condition_dropout=0.1"
            )
        return options.guidance

    def _class_index(self, name: str) -> int:
        return image_inputs.class_index(name, self.data_info.classes[: self.spec.num_classes])

    def inspect(
        self, model: ImageGenerator, parsed_input: InputImage | None, options: Options, decoding: Any
    ) -> Inspectable:
        """An image -> the attention with which each of its positions was predicted."""
        labels = np.full(1, self._class_index(options.class_))
        if parsed_input is None or self.is_upscaling:
            request = prepare(parsed_input, self.spec, kept=options.kept_pixels(), labels=labels)
            choice = options.choice(upscaling=self.is_upscaling)
            levels = generate(model, request.condition, request.known_levels, sizes=self.spec, choice=choice)
        else:
            parsed_input = image_inputs.resize_image(parsed_input, self.shape)
            levels, condition = encode(parsed_input.pixels[None], labels, self.spec)
            request = PreparedRequest(parsed_input, condition)
        with eval_mode(model):
            size = self.shape.height, self.shape.width
            title = prediction_title(request.image, size, label=options.class_, count=1)
            return inspect.build_inspectable(model, levels, request, sizes=self.spec, title=title)


def build(config: Config, folder: Path | None = None) -> ImageGeneration:
    """Return the task with the image shape and classes of the data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    collection = dataset.load_collection(image_inputs.image_source(config, held_out=config.held_out))
    info = ImageDataInfo(collection.shape, collection.classes)
    return ImageGeneration(config, info, load_collection=lambda: collection)


def load(config: Config, folder: Path) -> ImageGeneration:
    """Return the task of a run folder; the data is read only when it is used."""
    info = image_inputs.load_data_info(folder)
    source = image_inputs.image_source(config, held_out=config.held_out)
    return ImageGeneration(config, info, load_collection=lambda: dataset.load_collection(source), folder=folder)
