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
from regard.core.protocols import ImageCondition, ImageGenerator
from regard.core.seed import combine_seeds
from regard.core.state_tree import map_tensors
from regard.decoding.strategies import sample
from regard.layers.fuse_for_decoding import optimize_for_decoding

UNKNOWN = -1
TOGETHER = 32  # images that are made side by side
Tick = Callable[[], None]


class Painted(NamedTuple):
    """Images, and how likely what is new in them was."""

    levels: Tensor  # (b n) in raster order
    scores: Tensor  # (b) log p


@torch.no_grad()
def paint(
    model: ImageGenerator,
    subject: ImageCondition,
    known: Tensor,
    *,
    levels: int,
    how: sample.Config | None,
    tick: Tick = lambda: None,
) -> Painted:
    """Levels that are known (b n), UNKNOWN elsewhere -> all levels. Without `how` the likeliest level is taken at every
    place. What an image becomes depends on its number in the batch and the seed, not on the others."""
    model = cast("ImageGenerator", optimize_for_decoding(cast("nn.Module", model)))
    order = _each(model.order)  # (t c)
    images, total = known.clone(), torch.zeros(len(known), dtype=torch.float64, device=known.device)
    numbers = _numbers(known, how)
    place = _first_free(known, order)
    feature, state = _begun(model, subject, images, place=place, levels=levels)
    while True:
        given = images.new_zeros(len(images), 0)
        for spot in order[place]:
            scores = model.readout.logits(feature, given).float().log_softmax(dim=-1)
            drawn = _choose(scores, numbers[:, spot], how)
            free = known[:, spot] == UNKNOWN
            values = torch.where(free, drawn, known[:, spot])
            total += torch.where(free, scores.gather(1, values[:, None])[:, 0], 0.0)
            given = torch.cat([given, values[:, None]], dim=1)
        images[:, order[place]] = given
        tick()
        place += 1
        if place == len(order):
            return Painted(images, total)
        features, state = model.features(_tokens(given[:, None], model.order), state)
        feature = features[:, -1]


def _choose(scores: Tensor, numbers: Tensor, how: sample.Config | None) -> Tensor:
    """Log p (b levels) -> a level of each row (b)."""
    return scores.argmax(dim=1) if how is None else sample.draw(scores, numbers[:, None], config=how)[:, 0]


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


def teacher_forced(model: ImageGenerator, pixels: Tensor, subject: ImageCondition, *, levels: int) -> Tensor:
    """Images (b n) -> the sum of -log p of all their levels."""
    labels = pixels[:, model.order]  # (b t) or (b t c)
    start = torch.full_like(labels[:, :1], levels)
    features, _ = model.features(torch.cat([start, labels[:, :-1]], dim=1), model.start(subject))
    loss: Tensor = model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1))
    return loss


def generate(
    model: ImageGenerator,
    subject: ImageCondition,
    known: Tensor | None,
    *,
    sizes: ImageGenerationSpec,
    how: sample.Config | None,
) -> Tensor:
    """Any number of subjects, and the levels (b n) that are known of their images -> all levels (b n)."""
    count, size = len(subject.labels), sizes.height * sizes.width * sizes.channels
    known = torch.full((count, size), UNKNOWN) if known is None else known
    parts = []
    with eval_mode(model) as device, progress(len(model.order) * -(-count // TOGETHER)) as tick:
        for low in range(0, count, TOGETHER):
            rows = slice(low, low + TOGETHER)
            part, given = map_tensors(
                (ImageCondition(*(x[rows] for x in subject)), known[rows]), lambda x: x.to(device)
            )
            parts.append(paint(model, part, given, levels=sizes.levels, how=how, tick=tick).levels)
    return torch.cat(parts)


@contextmanager
def progress(places: int) -> Iterator[Tick]:
    """A bar that moves with every place; nothing where there is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("painting"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=places)
        yield lambda: bar.advance(task)
