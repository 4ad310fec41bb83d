"""Image generation, position by position: unconditional, completion of a partial image, or upscaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import NamedTuple, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from regard.core.data_specs import ImageGenerationSpec
from regard.core.inference_mode import eval_mode
from regard.core.protocols.image_generator import ImageCondition, ImageGenerator
from regard.core.seed import combine_seeds
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction
from regard.data.images import drawing
from regard.data.images.image_files import Pixels, encode_png
from regard.decoding.strategies import sample
from regard.layers.fuse_for_decoding import optimize_for_decoding
from regard.tasks._shared.image_inputs import InputImage, format_remarks

UNKNOWN = -1
BATCH_IMAGES = 32  # images generated at the same time
StepCallback = Callable[[], None]


class LevelMode(Enum):
    """Choice of a level without sampling."""

    MOST_LIKELY = "most_likely"
    MEAN = "mean"  # the level nearest to the mean of the distribution, which has the smallest squared error


Choice = sample.Config | LevelMode


class Guidance(NamedTuple):
    """Classifier-free guidance (Ho and Salimans 2022): log p + (scale - 1) · (log p - log p without the class).

    Each image is generated with its class and without in the same batch, so it takes twice the time.
    """

    scale: float  # the difference that the class makes to log p counts this many times; 1: no guidance
    no_class: int  # the label of images without a class

    @property
    def is_active(self) -> bool:
        """True if images are generated with their class and without."""
        return self.scale != 1

    def add_unconditional(self, condition: ImageCondition) -> ImageCondition:
        """Append the same images without their classes."""
        if not self.is_active:
            return condition
        labels = torch.cat([condition.labels, torch.full_like(condition.labels, self.no_class)])
        return ImageCondition(labels, condition.low_res.repeat(2, 1))

    def repeat(self, rows: Tensor) -> Tensor:
        """Rows (b n) of images -> rows of the images with and without classes."""
        return rows.repeat(2, 1) if self.is_active else rows

    def combine(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Log p of the images with and without classes -> log p of the model, and that of the guided choice."""
        if not self.is_active:
            return log_probs, log_probs
        conditional, unconditional = log_probs.chunk(2)
        guided = conditional + (self.scale - 1) * (conditional - unconditional)
        return conditional, guided.log_softmax(dim=-1)


NO_GUIDANCE = Guidance(1.0, 0)


class GeneratedImages(NamedTuple):
    """Images, and the log p of their generated levels."""

    levels: Tensor  # (b n) in raster order
    scores: Tensor  # (b) log p


def generate(
    model: ImageGenerator,
    condition: ImageCondition,
    known_levels: Tensor | None,
    *,
    sizes: ImageGenerationSpec,
    choice: Choice,
    guidance: float = 1.0,
) -> Tensor:
    """Conditions of any number of images, and their known levels (b n) -> all levels (b n)."""
    guide = Guidance(guidance, sizes.num_classes)
    count, size = len(condition.labels), sizes.height * sizes.width * sizes.channels
    known_levels = torch.full((count, size), UNKNOWN) if known_levels is None else known_levels
    parts = []
    with eval_mode(model) as device, progress_bar(len(model.order) * -(-count // BATCH_IMAGES)) as on_step:
        for low in range(0, count, BATCH_IMAGES):
            rows = slice(low, low + BATCH_IMAGES)
            batch = ImageCondition(*(x[rows] for x in condition)), known_levels[rows]
            part, part_levels = map_tensors(batch, lambda x: x.to(device))
            images = generate_batch(
                model,
                part,
                part_levels,
                num_levels=sizes.levels,
                choice=choice,
                first_index=low,
                guidance=guide,
                on_step=on_step,
            )
            parts.append(images.levels)
    return torch.cat(parts)


@torch.no_grad()
def generate_batch(
    model: ImageGenerator,
    condition: ImageCondition,
    known_levels: Tensor,
    *,
    num_levels: int,
    choice: Choice,
    first_index: int = 0,
    guidance: Guidance = NO_GUIDANCE,
    on_step: StepCallback = lambda: None,
) -> GeneratedImages:
    """Known levels (b n), UNKNOWN elsewhere -> all levels, each sampled or chosen by `choice`.

    Samples depend on the seed and the image's index in the request only, not on the batch. `first_index` is the index
    of the first image of this batch.
    """
    model = cast("ImageGenerator", optimize_for_decoding(cast("nn.Module", model)))
    order = _as_matrix(model.order)  # (t c)
    images = known_levels.clone()
    scores = torch.zeros(len(known_levels), dtype=torch.float64, device=known_levels.device)
    noise = _sampling_noise(known_levels, choice, first_index)
    position = _first_unknown(known_levels, order)
    condition = guidance.add_unconditional(condition)
    feature, state = _encode_prefix(model, condition, guidance.repeat(images), position=position, num_levels=num_levels)
    while True:
        levels = images.new_zeros(len(images), 0)
        for pixel in order[position]:
            both = model.readout.logits(feature, guidance.repeat(levels)).float().log_softmax(dim=-1)
            log_probs, guided = guidance.combine(both)
            sampled = _choose(guided, noise[:, pixel], choice)
            is_unknown = known_levels[:, pixel] == UNKNOWN
            values = torch.where(is_unknown, sampled, known_levels[:, pixel])
            scores += torch.where(is_unknown, log_probs.gather(1, values[:, None])[:, 0], 0.0)
            levels = torch.cat([levels, values[:, None]], dim=1)
        images[:, order[position]] = levels
        on_step()
        position += 1
        if position == len(order):
            return GeneratedImages(images, scores)
        features, state = model.features(_tokens(guidance.repeat(levels)[:, None], model.order), state)
        feature = features[:, -1]


def _choose(log_probs: Tensor, noise: Tensor, choice: Choice) -> Tensor:
    """Log p (b levels) -> a level of each row (b)."""
    if choice is LevelMode.MOST_LIKELY:
        return log_probs.argmax(dim=1)
    if isinstance(choice, LevelMode):
        levels = torch.arange(log_probs.shape[1], dtype=log_probs.dtype, device=log_probs.device)
        return (log_probs.exp() @ levels).round().long()
    return sample.sample_tokens(log_probs, noise[:, None], config=choice)[:, 0]


def _encode_prefix(
    model: ImageGenerator, condition: ImageCondition, images: Tensor, *, position: int, num_levels: int
) -> tuple[Tensor, object]:
    """Encode all levels before a position at once -> the features of the position and the state there."""
    order = _as_matrix(model.order)
    prefix = images[:, order[:position]]  # (b t c)
    start = torch.full_like(images[:, order[:1]], num_levels)
    features, state = model.features(_tokens(torch.cat([start, prefix], dim=1), model.order), model.start(condition))
    return features[:, -1], state


def _tokens(levels: Tensor, order: Tensor) -> Tensor:
    """(b t c) -> (b t) if a position is one channel."""
    return levels[..., 0] if order.dim() == 1 else levels


def _as_matrix(order: Tensor) -> Tensor:
    return order[:, None] if order.dim() == 1 else order


def _first_unknown(known_levels: Tensor, order: Tensor) -> int:
    """Return the first position that is unknown in any image; the last position if all are known."""
    is_unknown = (known_levels[:, order] == UNKNOWN).flatten(2).any(dim=2).any(dim=0)
    return int(is_unknown.int().argmax()) if bool(is_unknown.any()) else len(order) - 1


def _sampling_noise(known_levels: Tensor, choice: Choice, first_index: int) -> Tensor:
    """Return uniform random numbers (b n) of [0, 1), each image with its own seed."""
    if isinstance(choice, LevelMode):
        return torch.zeros(known_levels.shape, device=known_levels.device)
    count, size = known_levels.shape
    seeds = [combine_seeds(choice.seed, index) for index in range(first_index, first_index + count)]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    noise = [torch.rand(size, generator=generator, dtype=torch.float64) for generator in generators]
    return torch.stack(noise).to(known_levels.device)


def teacher_forcing_loss(
    model: ImageGenerator, pixels: Tensor, condition: ImageCondition, *, num_levels: int
) -> Tensor:
    """Images (b n) -> the sum of -log p of all their levels."""
    labels = pixels[:, model.order]  # (b t) or (b t c)
    start = torch.full_like(labels[:, :1], num_levels)
    features, _ = model.features(torch.cat([start, labels[:, :-1]], dim=1), model.start(condition))
    loss: Tensor = model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1))
    return loss


@contextmanager
def progress_bar(total: int) -> Iterator[StepCallback]:
    """Show a bar that advances with every position; without a terminal it is a no-op."""
    console = Console(stderr=True)
    columns = (TextColumn("painting"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


def prediction_title(image: InputImage | None, size: tuple[int, int], *, label: str, count: int) -> str:
    """Return a one-line description of generated images."""
    size_text, of = f"{size[0]}x{size[1]}", f" of class {label}" if label else ""
    if image is None:
        return f"{count} images of {size_text}{of}" if count > 1 else f"an image of {size_text}{of}"
    return f"{image.name} made to {size_text}{of}"


def to_prediction(images: Pixels, image: InputImage | None, *, scale: int, label: str) -> Prediction:
    """Images (n h w c) -> a prediction whose files show them on one sheet."""
    sheet = drawing.make_grid(images)
    scale = scale or drawing.display_scale(*sheet.shape[:2])
    return Prediction(
        prediction_title(image, (images.shape[1], images.shape[2]), label=label, count=len(images)),
        value=images,
        remarks=format_remarks(image),
        files={".png": partial(encode_png, sheet, scale=scale), ".txt": lambda: drawing.to_text(sheet).encode()},
    )
