"""Changes of training images that leave their class as it is, for a whole batch at once; every draw is torch's own.

Crops and flips: He et al. 2016, section 4.2; erasing: Zhong et al. 2020; mixup: Zhang et al. 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from regard.core.errors import ConfigError

MAX_ERASED_SHARE, MIN_ERASED_SHARE = 1 / 3, 0.02  # share of an image that is erased
MIN_ASPECT_RATIO = 0.3  # height : width of what is erased, at the extreme


@dataclass(frozen=True)
class Augmentation:
    """How training images are changed; 0 everywhere: not at all."""

    crop: int = 0  # pixels: the image is moved by at most so many to any side, its border filled with the darkest
    flip: float = 0.0  # how often left and right change places
    shift: float = 0.0  # moved, turned, slanted and scaled by at most this share (radians for angles)
    erase: float = 0.0  # how often a rectangle is replaced by noise
    mixup: float = 0.0  # two images are mixed, their shares drawn from Beta(mixup, mixup)

    def __post_init__(self) -> None:
        if self.crop < 0 or self.mixup < 0:
            raise ConfigError(f"crop={self.crop}, mixup={self.mixup}: neither is negative; 0 leaves images alone")
        for name in ("flip", "shift", "erase"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)} lies in 0 … 1; 0 leaves images alone")


class MixedBatch(NamedTuple):
    """Images of which each may be two: the label of the first counts `share`, that of the second the rest."""

    images: Tensor  # (b c h w)
    labels: Tensor  # (b)
    other_labels: Tensor  # (b)
    weight: Tensor  # (b)


def augment(images: Tensor, labels: Tensor, augmentation: Augmentation) -> MixedBatch:
    """Images (b c h w) of -1 … 1 and labels (b) -> the same, changed."""
    if augmentation.shift:
        images = warp(images, augmentation.shift)
    if augmentation.crop:
        images = crop(images, augmentation.crop)
    if augmentation.flip:
        images = flip(images, augmentation.flip)
    if augmentation.erase:
        images = erase(images, augmentation.erase)
    return apply_mixup(images, labels, augmentation.mixup)


def random_augment(
    images: Tensor, *, flip_probability: float = 0.0, max_shift: int = 0, grey_probability: float = 0.0
) -> Tensor:
    """Images turned, moved and without colours, each with its probability or reach; 0: not at all."""
    images = flip(images, flip_probability) if flip_probability else images
    images = crop(images, max_shift) if max_shift else images
    return random_grayscale(images, grey_probability) if grey_probability else images


def crop(images: Tensor, max_shift: int) -> Tensor:
    """Each image moved by at most `reach` pixels along both axes."""
    b, c, h, w = images.shape
    wide = pad(images, (max_shift,) * 4, value=-1.0)
    rows = torch.randint(2 * max_shift + 1, (b, 1)) + torch.arange(h)
    columns = torch.randint(2 * max_shift + 1, (b, 1)) + torch.arange(w)
    places = (rows[:, :, None] * (w + 2 * max_shift) + columns[:, None]).flatten(1)  # (b h·w)
    return wide.flatten(2).gather(2, places[:, None].expand(-1, c, -1)).view(b, c, h, w)


def flip(images: Tensor, probability: float) -> Tensor:
    """Each image turned left to right, or not."""
    turned = torch.rand(len(images), 1, 1, 1) < probability
    return torch.where(turned, images.flip(3), images)


def random_grayscale(images: Tensor, probability: float) -> Tensor:
    """Each image with the mean of its channels in all of them, or not."""
    pale = torch.rand(len(images), 1, 1, 1) < probability
    return torch.where(pale, images.mean(dim=1, keepdim=True), images)


def warp(images: Tensor, magnitude: float) -> Tensor:
    """Each image moved, turned, slanted and scaled a little, by an affine map of its own."""
    b = len(images)
    angle, slant, across, down = ((2 * torch.rand(4, b) - 1) * magnitude).unbind()
    sizes = 1 + (2 * torch.rand(2, b) - 1) * magnitude
    cos, sin = angle.cos(), angle.sin()
    rows = torch.stack([cos * sizes[0], slant - sin, across, sin, cos * sizes[1], down], dim=1).view(b, 2, 3)
    grid = affine_grid(rows, list(images.shape), align_corners=False)
    return grid_sample(images + 1, grid, align_corners=False) - 1  # beyond the border is the darkest


def erase(images: Tensor, probability: float) -> Tensor:
    """A rectangle of some images replaced by noise."""
    b, _, h, w = images.shape
    area = h * w * (MIN_ERASED_SHARE + (MAX_ERASED_SHARE - MIN_ERASED_SHARE) * torch.rand(b))
    ratio = torch.exp((2 * torch.rand(b) - 1) * -math.log(MIN_ASPECT_RATIO))
    high, wide = (area * ratio).sqrt().clamp(max=h), (area / ratio).sqrt().clamp(max=w)
    top, left = torch.rand(b) * (h - high), torch.rand(b) * (w - wide)
    rows, columns = torch.arange(h)[None, :] + 0.5, torch.arange(w)[None, :] + 0.5
    inside = ((rows > top[:, None]) & (rows < (top + high)[:, None]))[:, :, None]
    inside = inside & ((columns > left[:, None]) & (columns < (left + wide)[:, None]))[:, None, :]  # (b h w)
    chosen = (torch.rand(b, 1, 1) < probability) & inside
    return torch.where(chosen[:, None], torch.rand_like(images) * 2 - 1, images)


def apply_mixup(images: Tensor, labels: Tensor, alpha: float) -> MixedBatch:
    """Each image with another of the batch, by shares from Beta(α, α); α = 0: each by itself."""
    if not alpha:
        return MixedBatch(images, labels, labels, torch.ones(len(labels)))
    share = torch.distributions.Beta(alpha, alpha).sample((len(labels),))
    share = torch.maximum(share, 1 - share)  # the first image is the greater part
    order = torch.randperm(len(labels))
    part = share[:, None, None, None]
    return MixedBatch(images * part + images[order] * (1 - part), labels, labels[order], share)
