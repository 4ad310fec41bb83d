"""The captioning task: captioned images as batches, the training loss, evaluation, and captions of new images."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.config import check_fields
from regard.core.data_specs import CaptioningSpec, SpecialTokens
from regard.core.errors import ConfigError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Hypothesis, Indices, Loss, TargetMetric
from regard.core.task import Prediction, Task
from regard.data.builtin import scenes
from regard.data.builtin.scenes import HeldOut
from regard.data.captions import dataset
from regard.data.captions.dataset import CaptionBatch, CaptionCollection, CaptionedImages, Language
from regard.data.images.augment import random_augment
from regard.data.images.image_files import Pixels
from regard.data.images.loader import TargetShape
from regard.data.text import tokenizer
from regard.data.text.tokenizer import Level, Tokenizer
from regard.decoding.strategy import DecodingStrategy, n_best
from regard.tasks._shared import data_summary, image_inputs
from regard.tasks._shared.batch_search import SearchBatch, max_batch_size, search_batches
from regard.tasks._shared.image_inputs import ImageDataInfo, InputImage
from regard.tasks.captioning import grounding, inspect, metrics, overlay
from regard.tasks.captioning.grounding import CaptionModel
from regard.tasks.captioning.image_features import build_image_encoder

CollectionLoader = Callable[[], CaptionCollection]
TOKENIZER_FILE = "tokenizer.json"
MAX_BATCH_IMAGES = 64  # decoded together
NUM_EXTRA_SCENES = 200  # scenes with more objects than in training, for the extra metrics


@dataclass(frozen=True)
class Config:
    """Images and their captions. Without a path, generated scenes of coloured shapes."""

    path: Path | None = None  # a folder of images (or archives of them) with captions as TSV, CSV or JSON
    dataset: str = dataset.BUILT_IN  # without a path: scenes
    scenes: int = 8000  # training scenes of the built-in data
    objects_per_scene: tuple[int, int] = (1, 3)  # minimum and maximum number of shapes in a scene
    held_out: HeldOut = (
        "triples"  # combinations only in valid and test: (size, colour, shape), or (colour, shape) pairs
    )
    language: Language = "en"  # language of the built-in captions: en or ko
    height: int = 64  # images are resized to this height
    width: int = 64  # images are resized to this width; a scene is a square of `height`
    channels: int = 3  # 1: grey, 3: colour
    backbone: str = ""  # a pretrained network for the images: efficientnet_lite0 or a name of timm; "": raw pixels
    backbone_weights: Path | None = None  # weights of the backbone, a .safetensors file; set model.stride=1 with it
    backbone_stride: int = 32  # pixels per cell of the backbone's grid: 32, or 16 or 8 by dilated convolutions
    tokenizer: Level = "word"  # token type: words (word), subwords (bpe, unigram) or characters (char)
    vocab_size: int = 10_000  # maximum number of tokens
    min_frequency: int = 1  # minimum number of occurrences of a token
    lowercase: bool = True  # lowercase captions
    max_length: int = 40  # maximum tokens of a caption, end token included; longer ones are left out and counted
    captions: int = 5  # captions of an image in one batch; if it has more, this many are sampled
    batch_size: int = 32  # images in a batch
    flip: float = 0.0  # probability of flipping a training image; not if captions distinguish left from right
    crop: int = 0  # maximum shift of a training image to each side, in pixels; like flip and grey not with a backbone
    grey: float = 0.0  # probability of converting a training image to grey, so that shape does not depend on colour
    smoothing: float = 0.0  # label smoothing: share of the probability that is spread over all tokens
    seed: int = 1  # of the built-in data and of generated splits

    def __post_init__(self) -> None:
        counts = ("scenes", "batch_size", "height", "width", "captions", "vocab_size", "min_frequency", "max_length")
        check_fields(self, at_least_1=counts, at_least_0=("crop",), probability=("flip", "grey", "smoothing"))
        if self.path is None:
            dataset.check_source(self.dataset)
        if self.backbone_stride not in (8, 16, 32):
            raise ConfigError(f"backbone_stride={self.backbone_stride} must be 8, 16 or 32")
        build_image_encoder(self.backbone, self.backbone_weights, self.backbone_stride)
        augmentations = {name: getattr(self, name) for name in ("crop", "flip", "grey")}
        used = ", ".join(f"{name}={value}" for name, value in augmentations.items() if value)
        if self.backbone and used:
            raise ConfigError(
                f"{used}: augmentation changes pixels, but the features of backbone={self.backbone!r} are computed "
                "once from the original images; set data.crop=0 data.flip=0 data.grey=0"
            )


TINY = Config(scenes=24, height=24, width=24, batch_size=4, objects_per_scene=(1, 2), max_length=16)  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request; the search itself is set by the [decoding] section of the run."""

    n: int = 1  # number of captions of each image; the first does not depend on n, a beam is widened if necessary
    occlude: str = ""  # a region to grey out first: left,top,right,bottom as fractions of the image, e.g. 0,0,0.5,0.5

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",))
        self.box()

    def box(self) -> scenes.Box | None:
        """Return the region to grey out; None if there is none."""
        return image_inputs.parse_box(self.occlude, option="occlude") if self.occlude else None


class Captioning(Task):
    """Captioning of images."""

    spec: CaptioningSpec

    def __init__(
        self,
        config: Config,
        data_info: ImageDataInfo,
        *,
        vocabulary: Tokenizer,
        load_collection: CollectionLoader,
        folder: Path | None = None,
    ) -> None:
        self.config, self.data_info, self.shape, self.vocabulary = config, data_info, data_info.shape, vocabulary
        self._load_collection, self._folder, self.special_tokens = load_collection, folder, SpecialTokens()
        self.image_encoder = build_image_encoder(config.backbone, config.backbone_weights, config.backbone_stride)
        self.spec = CaptioningSpec(
            *self.image_encoder.output_shape(self.shape), vocabulary.vocab_size, config.max_length, self.special_tokens
        )
        self.higher_is_better = dict.fromkeys(
            [*(f"bleu{n}" for n in metrics.NGRAM_ORDERS), "chrf", "exact", "pointing"], True
        )
        self.higher_is_better["loss"] = False
        self.noise_floor = {f"bleu{n}": metrics.NOISE_FLOOR for n in metrics.NGRAM_ORDERS}
        self.target_metric = TargetMetric("exact" if config.path is None else "bleu4", higher_is_better=True)
        self.examples, self.input_suffixes = image_inputs.example_paths(folder), image_inputs.INPUT_SUFFIXES
        self.caption_vocab = grounding.CaptionVocab(vocabulary, self.special_tokens)

    @cached_property
    def collection(self) -> CaptionCollection:
        """The images and captions of each split, read on first use."""
        return self._load_collection()

    @cached_property
    def training_captions(self) -> list[list[list[int]]]:
        """The token ids of the training captions of each image that are shorter than `max_length`."""
        captions = self.collection.split("train").captions
        rows = iter(self.vocabulary.encode([text for texts in captions for text in texts]))
        return [[row for row in (next(rows) for _ in texts) if len(row) < self.config.max_length] for texts in captions]

    def data_warnings(self) -> list[str]:
        total = sum(map(len, self.collection.split("train").captions))
        num_long = total - sum(map(len, self.training_captions))
        text = f"{num_long} of {total} training captions are longer than {self.config.max_length} tokens: left out"
        return [*self.collection.remarks, *([text] if num_long else [])]

    def data_summary(self) -> list[str]:
        splits, train = self.collection.splits, self.collection.split("train")
        sizes = data_summary.split_sizes({name: part.indices for name, part in splits.items()})
        num_captions = f"{sum(map(len, train.captions)):,} training captions"
        vocabulary = data_summary.format_vocabulary(self.spec.vocab_size)
        return [
            data_summary.format_counts("images", sizes, num_captions, vocabulary),
            data_summary.format_first_example("caption", train.captions[0][0]),
        ]

    def fingerprint(self) -> dict[str, str]:
        return {name: part.checksum() for name, part in self.collection.splits.items()}

    def token_texts(self, table: str = "") -> list[str]:
        return self.vocabulary.token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        captioned = np.array([i for i, rows in enumerate(self.training_captions) if rows], np.int64)
        if not len(captioned):
            raise ConfigError(f"no caption is shorter than max_length={self.config.max_length} tokens; raise it")
        batches = image_inputs.shuffled_batches(len(captioned), self.config.batch_size, epoch=epoch, seed=seed)
        return [captioned[batch] for batch in batches]

    def collate(self, examples: Indices) -> CaptionBatch:
        """Example indices -> augmented images, and up to `captions` captions of each."""
        config, part = self.config, self.collection.split("train")
        count = min(config.captions, max(map(len, self.training_captions)))
        captions = dataset.pad_captions(
            [self.training_captions[i] for i in examples.tolist()], count, self.special_tokens
        )
        images = self.image_encoder.encode_rows(part.pixels, part.indices[examples])
        images = random_augment(
            images, flip_probability=config.flip, max_shift=config.crop, grey_probability=config.grey
        )
        return CaptionBatch(images, captions)

    def loss(self, model: CaptionModel, batch: CaptionBatch) -> Loss:
        """Return the sum of the named loss parts of the model, counted in words."""
        captions = batch.captions.tokens
        parts = model.losses(batch.images, captions, pad=self.special_tokens.pad, smoothing=self.config.smoothing)
        count = int((captions[:, 1:] != self.special_tokens.pad).sum())
        return Loss(torch.stack(list(parts.values())).sum(), count, parts if len(parts) > 1 else {})

    def evaluate(self, model: CaptionModel, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """Return bleu1 … bleu4 of free-running captions over all references.

        Scenes also have `exact`, the share of captions that match word for word, and `pointing`. The latter is
        the share of content words whose attention is in the right region.
        """
        part = self.collection.split(split)
        scores = self._score_captions(model, part, decoding)
        if part.regions:
            pointing = grounding.pointing_accuracy(model, part, self.caption_vocab, image_encoder=self.image_encoder)
            scores |= {} if pointing is None else {"pointing": pointing}
        loss = self._loss_per_word(model, part)
        return scores if loss is None else scores | {"loss": loss}

    def _loss_per_word(self, model: CaptionModel, part: CaptionedImages) -> float | None:
        """Return the mean -log p of the words of the first caption of each image; None if all captions are too long."""
        rows = self.vocabulary.encode([texts[0] if texts else "" for texts in part.captions])
        fitting = [i for i, row in enumerate(rows) if 0 < len(row) < self.config.max_length]
        total, count, pad = 0.0, 0, self.special_tokens.pad
        with eval_mode(model) as device:
            for low in range(0, len(fitting), MAX_BATCH_IMAGES):
                batch = fitting[low : low + MAX_BATCH_IMAGES]
                captions = dataset.pad_captions([[rows[i]] for i in batch], 1, self.special_tokens).tokens.to(device)
                images = self.image_encoder(part.images(np.array(batch))).to(device)
                total += model.losses(images, captions, pad=pad)["words"].item()
                count += int((captions[:, 1:] != pad).sum())
        return total / count if count else None

    def _score_captions(
        self, model: CaptionModel, part: CaptionedImages, decoding: DecodingStrategy
    ) -> dict[str, float]:
        captions = self.best_captions(model, part.images(np.arange(len(part))), decoding)
        scores = {"chrf": metrics.chrf(captions, part.captions), **metrics.bleu(captions, part.captions)}
        return scores | ({"exact": metrics.exact_match(captions, part.captions)} if part.regions else {})

    def extra_metrics(self, model: CaptionModel, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """Return `cider` and `meteor` if their libraries are installed.

        For scenes also `more_exact` and `more_bleu4`, on scenes with one object more than in training.
        """
        part = self.collection.split(split)
        scores: dict[str, float] = {}
        if metrics.extras_installed():
            captions = self.best_captions(model, part.images(np.arange(len(part))), decoding)
            scores = {
                "cider": metrics.cider(captions, part.captions),
                "meteor": metrics.meteor(captions, part.captions),
            }
        num_objects = self.config.objects_per_scene[1] + 1
        if part.regions and num_objects <= scenes.CELLS**2:
            extra_scenes = scenes.generate(
                split,
                NUM_EXTRA_SCENES,
                side=self.shape.height,
                things=(num_objects, num_objects),
                held_out=self.config.held_out,
                seed=self.config.seed,
            )
            extra = self._score_captions(model, dataset.from_scenes(extra_scenes, self.config.language), decoding)
            scores |= {f"more_{name}": extra[name] for name in ("exact", "bleu4")}
        return scores

    def signatures(self) -> dict[str, str]:
        extra_scenes = f"{NUM_EXTRA_SCENES} scenes of {self.config.objects_per_scene[1] + 1} objects"
        return metrics.signatures() | (grounding.signatures(extra_scenes) if self.config.path is None else {})

    def search_captions(
        self, model: CaptionModel, pixels: Pixels, decoding: DecodingStrategy
    ) -> list[list[Hypothesis]]:
        """Images (n h w c) of 0 … 255 -> the captions of each, best first."""

        def load_batch(indices: Indices, device: torch.device) -> SearchBatch:
            images = self.image_encoder(pixels[indices]).to(device)
            return SearchBatch(images, torch.full((len(images),), self.spec.max_length - 1, device=device))

        size = max_batch_size(decoding, MAX_BATCH_IMAGES)
        batches = [np.arange(low, min(low + size, len(pixels))) for low in range(0, len(pixels), size)]
        return search_batches(
            model,
            decoding,
            batches,
            load_batch,
            special_tokens=self.special_tokens,
            sample_indices=decoding.sample_indices(len(pixels)),
        )

    def best_captions(self, model: CaptionModel, pixels: Pixels, decoding: DecodingStrategy) -> list[str]:
        """Images (n h w c) -> the best caption of each."""
        return [
            self.decode_tokens(hypotheses[0].tokens) for hypotheses in self.search_captions(model, pixels, decoding)
        ]

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        return self.vocabulary.decode([tokens])[0]

    def save(self, folder: Path) -> None:
        """Write the vocabulary, the shape of images, and an example image."""
        self.vocabulary.save(folder / TOKENIZER_FILE)
        first = np.zeros(1, np.int64)
        example = image_inputs.example_png(self._folder, lambda: self.collection.split("valid").images(first)[0])
        self.data_info.save(folder, example)

    def parse_object(self, value: Any) -> Any:
        """Return a Pillow image or a NumPy array as an input; other objects are inputs already."""
        return self.parse_input(value) if image_inputs.is_image_object(value) else value

    def parse_input(self, text: str) -> InputImage:
        """The path of an image file -> the image, resized to the input size of the model."""
        return image_inputs.resize_image(image_inputs.read_image(text, self.shape.channels), self.shape)

    def predict(
        self, model: CaptionModel, inputs: Sequence[InputImage], options: Options, decoding: DecodingStrategy
    ) -> list[list[Prediction]]:
        """Images -> the captions of each, best first, with the attention overlay of each as a .png file."""
        if not inputs:
            return []
        images = [_occlude(image, options) for image in inputs]
        search = partial(self.search_captions, model, np.stack([image.pixels for image in images]))
        return [
            [self._prediction(model, image, hypothesis) for hypothesis in hypotheses]
            for image, hypotheses in zip(images, n_best(search, decoding, count=options.n), strict=True)
        ]

    def _prediction(self, model: CaptionModel, image: InputImage, hypothesis: Hypothesis) -> Prediction:
        text = self.decode_tokens(hypothesis.tokens)
        render_png = partial(
            overlay.render_overlay,
            model,
            image,
            hypothesis.tokens,
            self.caption_vocab,
            image_encoder=self.image_encoder,
        )
        return Prediction(
            text,
            hypothesis.score,
            hypothesis.rank_score,
            value=text,
            files={".png": render_png},
            remarks=image_inputs.format_remarks(image),
        )

    def inspect(
        self, model: CaptionModel, parsed_input: InputImage, options: Options, decoding: DecodingStrategy
    ) -> Inspectable:
        """An image -> its captions, their attention, and the captions of the image with parts of it greyed out."""
        image = _occlude(parsed_input, options)
        started_at = time.perf_counter()
        (hypotheses,) = n_best(partial(self.search_captions, model, image.pixels[None]), decoding, count=options.n)
        seconds = time.perf_counter() - started_at
        boxes = grounding.occlusion_boxes(*grounding.grid_size(model))
        occluded = np.stack([grounding.occlude(image.pixels, box) for box in boxes])
        captions = self.best_captions(model, occluded, decoding)
        occlusions = tuple(inspect.OcclusionResult(box, text) for box, text in zip(boxes, captions, strict=True))
        captioned = inspect.CaptionedImage(image, hypotheses, seconds, occlusions, self.image_encoder)
        with eval_mode(model) as device:
            return inspect.build_inspectable(model, captioned, self.caption_vocab, device=device)


def _occlude(image: InputImage, options: Options) -> InputImage:
    box = options.box()
    if box is None:
        return image
    original = None if image.original is None else grounding.occlude(image.original, box)
    return image._replace(pixels=grounding.occlude(image.pixels, box), original=original)


def _load_collection(config: Config) -> CaptionCollection:
    if config.path is None:
        return dataset.make_scenes(
            config.scenes,
            side=config.height,
            seed=config.seed,
            language=config.language,
            things=config.objects_per_scene,
            held_out=config.held_out,
        )
    return dataset.read_files(config.path, TargetShape(config.height, config.width, config.channels), seed=config.seed)


def build(config: Config, folder: Path | None = None) -> Captioning:
    """Build the task with a vocabulary trained on the training captions, or with that of a run folder."""
    if folder is not None:
        return load(config, folder)
    collection = _load_collection(config)
    vocabulary = tokenizer.train(
        [text for texts in collection.split("train").captions for text in texts],
        level=config.tokenizer,
        size=config.vocab_size,
        lowercase=config.lowercase,
        minimum=config.min_frequency,
    )
    info = ImageDataInfo(collection.shape, ())
    return Captioning(config, info, vocabulary=vocabulary, load_collection=lambda: collection)


def load(config: Config, folder: Path) -> Captioning:
    """Load the task of a run folder; the data is read only when it is needed."""
    return Captioning(
        config,
        image_inputs.load_data_info(folder),
        vocabulary=tokenizer.load(folder / TOKENIZER_FILE),
        load_collection=lambda: _load_collection(config),
        folder=folder,
    )
