"""Images from a model, place by place: from nothing, around what is known, or from a smaller image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from regard.decoding.strategies import sample
from regard.layers.fuse_for_decoding import optimize_for_decoding

UNKNOWN = -1
BATCH_IMAGES = 32  # images that are made side by side
StepCallback = Callable[[], None]


class GeneratedImages(NamedTuple):
    """Images, and how likely what is new in them was."""

    levels: Tensor  # (b n) in raster order
    scores: Tensor  # (b) log p


@torch.no_grad()
def generate_batch(
    model: ImageGenerator,
    condition: ImageCondition,
    known_levels: Tensor,
    *,
    num_levels: int,
    sampling: sample.Config | None,
    on_step: StepCallback = lambda: None,
) -> GeneratedImages:
    """Levels that are known (b n), UNKNOWN elsewhere -> all levels. Without `how` the likeliest level is taken at every
    place. What an image becomes depends on its number in the batch and the seed, not on the others."""
    model = cast("ImageGenerator", optimize_for_decoding(cast("nn.Module", model)))
    order = _each(model.order)  # (t c)
    images, total = (
        known_levels.clone(),
        torch.zeros(len(known_levels), dtype=torch.float64, device=known_levels.device),
    )
    numbers = _numbers(known_levels, sampling)
    place = _first_free(known_levels, order)
    feature, state = _begun(model, condition, images, place=place, levels=num_levels)
    while True:
        given = images.new_zeros(len(images), 0)
        for spot in order[place]:
            scores = model.readout.logits(feature, given).float().log_softmax(dim=-1)
            drawn = _choose(scores, numbers[:, spot], sampling)
            free = known_levels[:, spot] == UNKNOWN
            values = torch.where(free, drawn, known_levels[:, spot])
            total += torch.where(free, scores.gather(1, values[:, None])[:, 0], 0.0)
            given = torch.cat([given, values[:, None]], dim=1)
        images[:, order[place]] = given
        on_step()
        place += 1
        if place == len(order):
            return GeneratedImages(images, total)
        features, state = model.features(_tokens(given[:, None], model.order), state)
        feature = features[:, -1]


def _choose(scores: Tensor, numbers: Tensor, how: sample.Config | None) -> Tensor:
    """Log p (b levels) -> a level of each row (b)."""
    return scores.argmax(dim=1) if how is None else sample.sample_tokens(scores, numbers[:, None], config=how)[:, 0]


def _begun(
    model: ImageGenerator, subject: ImageCondition, images: Tensor, *, place: int, levels: int
) -> tuple[Tensor, object]:
    """The features of a place and the state there, all places before it being known: they are read at once."""
    known = images[:, _each(model.order)[:place]]  # (b t c)
    start = torch.full_like(images[:, _each(model.order)[:1]], levels)
    features, state = model.features(_tokens(torch.cat([start, known], dim=1), model.order), model.start(subject))
    return features[:, -1], state


def _tokens(values: Tensor, order: Tensor) -> Tensor:
    """(b t c) -> (b t) where a place is one channel."""
    return values[..., 0] if order.dim() == 1 else values


def _each(order: Tensor) -> Tensor:
    return order[:, None] if order.dim() == 1 else order


def _first_free(known: Tensor, order: Tensor) -> int:
    """The first place that is to be made in some image; the last one where nothing is."""
    free = (known[:, order] == UNKNOWN).flatten(2).any(dim=2).any(dim=0)
    return int(free.int().argmax()) if bool(free.any()) else len(order) - 1


def _numbers(known: Tensor, how: sample.Config | None) -> Tensor:
    """(b n) from [0, 1), each image's by its own seed."""
    if how is None:
        return torch.zeros(known.shape, device=known.device)
    generators = [torch.Generator().manual_seed(combine_seeds(how.seed, row)) for row in range(len(known))]
    drawn = [torch.rand(known.shape[1], generator=generator, dtype=torch.float64) for generator in generators]
    return torch.stack(drawn).to(known.device)


def teacher_forcing_loss(
    model: ImageGenerator, pixels: Tensor, condition: ImageCondition, *, num_levels: int
) -> Tensor:
    """Images (b n) -> the sum of -log p of all their levels."""
    labels = pixels[:, model.order]  # (b t) or (b t c)
    start = torch.full_like(labels[:, :1], num_levels)
    features, _ = model.features(torch.cat([start, labels[:, :-1]], dim=1), model.start(condition))
    loss: Tensor = model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1))
    return loss


def generate(
    model: ImageGenerator,
    condition: ImageCondition,
    known_levels: Tensor | None,
    *,
    sizes: ImageGenerationSpec,
    sampling: sample.Config | None,
) -> Tensor:
    """Any number of subjects, and the levels (b n) that are known of their images -> all levels (b n)."""
    count, size = len(condition.labels), sizes.height * sizes.width * sizes.channels
    known_levels = torch.full((count, size), UNKNOWN) if known_levels is None else known_levels
    parts = []
    with eval_mode(model) as device, progress_bar(len(model.order) * -(-count // BATCH_IMAGES)) as tick:
        for low in range(0, count, BATCH_IMAGES):
            rows = slice(low, low + BATCH_IMAGES)
            part, given = map_tensors(
                (ImageCondition(*(x[rows] for x in condition)), known_levels[rows]), lambda x: x.to(device)
            )
            parts.append(
                generate_batch(model, part, given, num_levels=sizes.levels, sampling=sampling, on_step=tick).levels
            )
    return torch.cat(parts)


@contextmanager
def progress_bar(total: int) -> Iterator[StepCallback]:
    """A bar that moves with every place; nothing where there is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("painting"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
