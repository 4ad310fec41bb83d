"""Captioning: an image goes in, a sentence comes out, and for each word one sees where the model looked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
from regard.tasks._shared.image_inputs import ImageDataInfo, InputImage
from regard.tasks.captioning import grounding, inspect, metrics, overlay
from regard.tasks.captioning.image_features import build_image_encoder

CollectionLoader = Callable[[], CaptionCollection]
TOKENIZER_FILE = "tokenizer.json"
NUM_EXTRA_SCENES = 200  # scenes with more things than in training that are told by `regard evaluate`


@dataclass(frozen=True)
class Config:
    """Which images and captions. Without a path, scenes of coloured shapes made by code."""

    path: Path | None = None  # a folder of images (or archives of them) with captions as TSV, CSV or JSON
    dataset: str = dataset.BUILT_IN  # without a path: scenes
    scenes: int = 8000  # of the built-in training data
    objects_per_scene: tuple[int, int] = (1, 3)  # the least and the most shapes of a scene
    held_out: HeldOut = "triples"  # what is kept for valid and test: (size, colour, shape), or pairs of the last two
    language: Language = "en"  # of the built-in captions: en or ko
    height: int = 64  # rows that every image is brought to
    width: int = 64  # columns that every image is brought to; a scene is a square of `height`
    channels: int = 3  # 1: grey, 3: colour
    backbone: str = ""  # a net of timm that sees the images first, such as resnet18; "": the model sees the pixels
    backbone_weights: Path | None = None  # that net's weights, a .safetensors file; the model then has stride=1
    tokenizer: Level = "word"  # what a token is: a word, a subword (bpe, unigram) or a character (char)
    vocab_size: int = 10_000  # tokens, at most
    min_frequency: int = 1  # how often a token must be seen
    lowercase: bool = True  # captions are lowercased
    max_length: int = 40  # tokens of a caption, end mark included; longer ones are left out and counted
    captions: int = 5  # of an image that are learned at once; of more, so many are drawn
    batch_size: int = 32  # images in a batch
    flip: float = 0.0  # how often a training image is turned left to right; not where captions tell left from right
    crop: int = 0  # pixels: a training image is moved by at most so many to any side
    grey: float = 0.0  # how often a training image loses its colours, so that shapes are known in every colour
    smoothing: float = 0.0  # of the labels: this share of the probability is spread over all tokens
    seed: int = 1  # of the built-in data, and of splits that are not given

    def __post_init__(self) -> None:
        for name in (
            "scenes",
            "batch_size",
            "height",
            "width",
            "captions",
            "vocab_size",
            "min_frequency",
            "max_length",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.crop < 0:
            raise ConfigError(f"crop={self.crop} pixels: it is not negative; 0 leaves images where they are")
        for name in ("flip", "grey", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 0 and below 1")
        if self.path is None:
            dataset.check_source(self.dataset)
        build_image_encoder(self.backbone, self.backbone_weights)


TINY = Config(scenes=24, height=24, width=24, batch_size=4, objects_per_scene=(1, 2), max_length=16)  # for tests


@dataclass(frozen=True)
class Options:
    """What one can ask for in a request; how the search is made is said by the run's [decoding] settings."""

    n: int = 1  # how many captions of each image, the first as without this; a beam is made wide enough
    occlude: str = ""  # a region to grey out first: left,top,right,bottom as shares of the image, as 0,0,0.5,0.5

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n={self.n}: ask for at least one")
        self.box()

    def box(self) -> scenes.Box | None:
        """The region that is greyed out."""
        return grounding.parse_box(self.occlude) if self.occlude else None


class Captioning(Task):
    """Images with captions: batches, loss, scores, captions of new images, and how one is shown."""

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
        self._read, self._folder, self.special_tokens = load_collection, folder, SpecialTokens()
        self.image_encoder = build_image_encoder(config.backbone, config.backbone_weights)
        self.spec = CaptioningSpec(
            *self.image_encoder.output_shape(self.shape), vocabulary.vocab_size, config.max_length, self.special_tokens
        )
        self.higher_is_better = dict.fromkeys([*(f"bleu{n}" for n in metrics.NGRAM_ORDERS), "exact", "pointing"], True)
        self.target_metric = TargetMetric("exact" if config.path is None else "bleu4", higher_is_better=True)
        self.examples, self.input_suffixes = image_inputs.example_paths(folder), image_inputs.INPUT_SUFFIXES
        self.caption_vocab = grounding.CaptionVocab(vocabulary, self.special_tokens)

    @cached_property
    def collection(self) -> CaptionCollection:
        """The images of each split; read when first asked for."""
        return self._read()

    @cached_property
    def training_captions(self) -> list[list[list[int]]]:
        """The training captions as tokens, of each image those that fit."""
        part = self.collection.split("train")
        flat = iter(self.vocabulary.encode([text for each in part.captions for text in each]))
        return [
            [row for row in (next(flat) for _ in each) if len(row) < self.config.max_length] for each in part.captions
        ]

    def data_warnings(self) -> list[str]:
        """What a user should know of the data: what is left out, what had to be converted."""
        said = sum(map(len, self.collection.split("train").captions))
        long = said - sum(map(len, self.training_captions))
        text = f"{long} of {said} training captions are longer than {self.config.max_length} tokens: left out"
        return [*self.collection.remarks, *([text] if long else [])]

    def data_summary(self) -> list[str]:
        """How many images and captions there are, the vocabulary, and one caption."""
        splits, train = self.collection.splits, self.collection.split("train")
        said = f"{sum(map(len, train.captions)):,} training captions"
        lengths = data_summary.split_sizes({name: part.indices for name, part in splits.items()})
        counts = data_summary.format_counts(
            "images", lengths, said, data_summary.format_vocabulary(self.spec.vocab_size)
        )
        return [counts, data_summary.format_first_example("caption", train.captions[0][0])]

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return {name: part.checksum() for name, part in self.collection.splits.items()}

    def token_texts(self, table: str = "") -> list[str]:
        return self.vocabulary.token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of images that have captions, in random order."""
        told = np.array([number for number, rows in enumerate(self.training_captions) if rows], np.int64)
        if not len(told):
            raise ConfigError(
                f"no caption is as short as longest={self.config.max_length} tokens; give a larger number"
            )
        return [
            told[batch]
            for batch in image_inputs.shuffled_batches(len(told), self.config.batch_size, epoch=epoch, seed=seed)
        ]

    def collate(self, examples: Indices) -> CaptionBatch:
        """Example numbers -> images, and some captions of each."""
        count = min(self.config.captions, max(map(len, self.training_captions)))
        captions = dataset.pad_captions(
            [self.training_captions[number] for number in examples.tolist()], count, self.special_tokens
        )
        part = self.collection.split("train")
        images = self.image_encoder.encode_rows(part.pixels, part.indices[examples])
        how = self.config
        return CaptionBatch(
            random_augment(images, flip_probability=how.flip, max_shift=how.crop, grey_probability=how.grey), captions
        )

    def loss(self, model: Any, batch: CaptionBatch) -> Loss:
        """The training loss, summed over words: what the model says its parts are, by name."""
        captions = batch.captions.tokens
        parts = model.losses(batch.images, captions, pad=self.special_tokens.pad, smoothing=self.config.smoothing)
        count = int((captions[:, 1:] != self.special_tokens.pad).sum())
        return Loss(torch.stack(list(parts.values())).sum(), count, parts if len(parts) > 1 else {})

    def evaluate(self, model: Any, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """Free-running bleu1 … bleu4 over all references; on scenes also `exact`, the percentage of captions that are
        right word for word, and `pointing`, that of content words for which the model looked at the right place."""
        part = self.collection.split(split)
        scores = self._scores(model, part, decoding)
        pointed = (
            grounding.pointing_accuracy(model, part, self.caption_vocab, image_encoder=self.image_encoder)
            if part.regions
            else None
        )
        return scores if pointed is None else scores | {"pointing": pointed}

    def _scores(self, model: Any, part: CaptionedImages, decoding: DecodingStrategy) -> dict[str, float]:
        told = self.best_captions(model, part.images(np.arange(len(part))), decoding)
        scores = metrics.bleu(told, part.captions)
        return scores | ({"exact": metrics.exact_match(told, part.captions)} if part.regions else {})

    def extra_metrics(self, model: Any, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """`cider` and `meteor` where their libraries are installed; for scenes also `more_exact` and `more_bleu4`, on
        scenes with one thing more than there are in training."""
        part = self.collection.split(split)
        scores: dict[str, float] = {}
        if metrics.extras_installed():
            told = self.best_captions(model, part.images(np.arange(len(part))), decoding)
            kinds = {"cider": metrics.cider, "meteor": metrics.meteor}
            scores = {name: score(told, part.captions) for name, score in kinds.items()}
        more = self.config.objects_per_scene[1] + 1
        if part.regions and more <= scenes.CELLS**2:
            how: dict[str, Any] = {"things": (more, more), "held": self.config.held_out, "seed": self.config.seed}
            made = scenes.generate(split, NUM_EXTRA_SCENES, side=self.shape.height, **how)
            found = self._scores(model, dataset.from_scenes(made, self.config.language), decoding)
            scores |= {f"more_{name}": found[name] for name in ("exact", "bleu4")}
        return scores

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        more = f"{NUM_EXTRA_SCENES} scenes of {self.config.objects_per_scene[1] + 1} things"
        return metrics.signatures() | (grounding.signatures(more) if self.config.path is None else {})

    def search_captions(self, model: Any, pixels: Pixels, decoding: DecodingStrategy) -> list[list[Hypothesis]]:
        """Images (n h w c) of 0 … 255 -> the captions of each, best first."""
        how = inspect.SearchSettings(decoding, self.special_tokens, self.spec.max_length - 1, self.image_encoder)
        return inspect.search(model, pixels, how)

    def best_captions(self, model: Any, pixels: Pixels, decoding: DecodingStrategy) -> list[str]:
        """Images (n h w c) -> the best caption of each."""
        return [
            self.decode_tokens(hypotheses[0].tokens) for hypotheses in self.search_captions(model, pixels, decoding)
        ]

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        return self.vocabulary.decode([tokens])[0]

    def save(self, folder: Path) -> None:
        """Write the vocabulary, the shape of images, and an image to try."""
        self.vocabulary.save(folder / TOKENIZER_FILE)
        first = np.zeros(1, np.int64)
        make = image_inputs.example_png(self._folder, lambda: self.collection.split("valid").images(first)[0])
        self.data_info.save(folder, make)

    def parse_input(self, text: str) -> InputImage:
        """The path of an image file -> the image in the size of the model."""
        return image_inputs.resize_image(image_inputs.read_image(text, self.shape.channels), self.shape)

    def predict(
        self, model: Any, inputs: Sequence[InputImage], options: Options, decoding: DecodingStrategy
    ) -> list[list[Prediction]]:
        """Images -> the captions of each, best first; each can be written as a picture of where the model looked."""
        if not inputs:
            return []
        inputs = [self._changed(given, options) for given in inputs]
        tell = partial(self.search_captions, model, np.stack([given.pixels for given in inputs]))
        return [
            [self._answer(model, given, one) for one in hypotheses]
            for given, hypotheses in zip(inputs, n_best(tell, decoding, count=options.n), strict=True)
        ]

    def _changed(self, given: InputImage, options: Options) -> InputImage:
        box = options.box()
        return given if box is None else given._replace(pixels=grounding.occlude(given.pixels, box))

    def _answer(self, model: Any, given: InputImage, told: Hypothesis) -> Prediction:
        text = self.decode_tokens(told.tokens)
        files = {
            ".png": partial(
                overlay.render_overlay,
                model,
                given.pixels,
                told.tokens,
                self.caption_vocab,
                image_encoder=self.image_encoder,
            )
        }
        told_of = image_inputs.format_remarks(given)
        return Prediction(text, told.score, told.rank_score, value=text, files=files, remarks=told_of)

    def inspect(
        self, model: Any, parsed_input: InputImage, options: Options, decoding: DecodingStrategy
    ) -> Inspectable:
        """An image -> its captions, where the model looked, and what it says without parts of the image."""
        parsed_input = self._changed(parsed_input, options)
        begun = time.perf_counter()
        (hypotheses,) = n_best(
            partial(self.search_captions, model, parsed_input.pixels[None]), decoding, count=options.n
        )
        seconds = time.perf_counter() - begun
        boxes = grounding.occlusion_boxes(*grounding.grid_size(model))
        changed = self.best_captions(
            model, np.stack([grounding.occlude(parsed_input.pixels, box) for box in boxes]), decoding
        )
        again = tuple(inspect.OcclusionResult(box, text) for box, text in zip(boxes, changed, strict=True))
        told = inspect.CaptionedImage(parsed_input, hypotheses, seconds, again, self.image_encoder)
        with eval_mode(model):
            return inspect.build_inspectable(model, told, self.caption_vocab)


def _collect(config: Config) -> CaptionCollection:
    if config.path is None:
        kind: dict[str, Any] = {
            "language": config.language,
            "things": config.objects_per_scene,
            "held": config.held_out,
        }
        return dataset.make_scenes(config.scenes, side=config.height, seed=config.seed, **kind)
    return dataset.read_files(config.path, TargetShape(config.height, config.width, config.channels), seed=config.seed)


def build(config: Config, folder: Path | None = None) -> Captioning:
    """A config -> the task with a vocabulary made from the training captions, or that of a run folder."""
    if folder is not None:
        return load(config, folder)
    found = _collect(config)
    texts = [text for each in found.split("train").captions for text in each]
    choices: dict[str, Any] = {
        "size": config.vocab_size,
        "lowercase": config.lowercase,
        "minimum": config.min_frequency,
    }
    vocabulary = tokenizer.train(texts, level=config.tokenizer, **choices)
    return Captioning(config, ImageDataInfo(found.shape, ()), vocabulary=vocabulary, load_collection=lambda: found)


def load(config: Config, folder: Path) -> Captioning:
    """A config and a run folder -> the task of that run; the data is not needed until it is asked for."""
    vocabulary, known = tokenizer.load(folder / TOKENIZER_FILE), image_inputs.load_data_info(folder)
    return Captioning(config, known, vocabulary=vocabulary, load_collection=lambda: _collect(config), folder=folder)
