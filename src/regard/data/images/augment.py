"""Data augmentation of training images that preserves their class, for a batch at a time; it draws from torch's
random generator.

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

MAX_ERASED_SHARE, MIN_ERASED_SHARE = 1 / 3, 0.02  # fraction of the image's area that is erased
MIN_ASPECT_RATIO = 0.3  # smallest height : width of the erased rectangle; the largest is its inverse


@dataclass(frozen=True)
class Augmentation:
    """Augmentation of training images; 0 switches an operation off."""

    crop: int = 0  # translate by up to this many pixels in each direction; the border is filled with black
    flip: float = 0.0  # probability of a horizontal flip
    shift: float = 0.0  # translate, rotate, shear and scale by up to this fraction (radians for angles)
    erase: float = 0.0  # probability that a rectangle is replaced by noise
    mixup: float = 0.0  # mix pairs of images with weights from Beta(mixup, mixup)

    def __post_init__(self) -> None:
        if self.crop < 0 or self.mixup < 0:
            raise ConfigError(f"crop={self.crop}, mixup={self.mixup}: must not be negative; 0 switches them off")
        for name in ("flip", "shift", "erase"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)}: must lie in 0 … 1; 0 switches it off")


class MixedBatch(NamedTuple):
    """Mixed images: the loss weights `labels` by `weight` and `other_labels` by 1 - `weight`."""

    images: Tensor  # (b c h w)
    labels: Tensor  # (b)
    other_labels: Tensor  # (b)
    weight: Tensor  # (b)


def augment(images: Tensor, labels: Tensor, augmentation: Augmentation) -> MixedBatch:
    """Images (b c h w) in -1 … 1 and labels (b) -> the augmented batch."""
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
    """Flip, translate and convert to grayscale at random; 0 switches an operation off."""
    images = flip(images, flip_probability) if flip_probability else images
    images = crop(images, max_shift) if max_shift else images
    return random_grayscale(images, grey_probability) if grey_probability else images


def crop(images: Tensor, max_shift: int) -> Tensor:
    """Translate each image by up to `max_shift` pixels along both axes."""
    b, c, h, w = images.shape
    padded = pad(images, (max_shift,) * 4, value=-1.0)
    rows = torch.randint(2 * max_shift + 1, (b, 1)) + torch.arange(h)
    columns = torch.randint(2 * max_shift + 1, (b, 1)) + torch.arange(w)
    indices = (rows[:, :, None] * (w + 2 * max_shift) + columns[:, None]).flatten(1)  # (b h·w)
    return padded.flatten(2).gather(2, indices[:, None].expand(-1, c, -1)).view(b, c, h, w)


def flip(images: Tensor, probability: float) -> Tensor:
    """Flip each image horizontally with the given probability."""
    flipped = torch.rand(len(images), 1, 1, 1) < probability
    return torch.where(flipped, images.flip(3), images)


def random_grayscale(images: Tensor, probability: float) -> Tensor:
    """Replace all channels of an image by their mean with the given probability."""
    grayscale = torch.rand(len(images), 1, 1, 1) < probability
    return torch.where(grayscale, images.mean(dim=1, keepdim=True), images)


def warp(images: Tensor, magnitude: float) -> Tensor:
    """Translate, rotate, shear and scale each image by a random affine map."""
    b = len(images)
    angle, shear, shift_x, shift_y = ((2 * torch.rand(4, b) - 1) * magnitude).unbind()
    scales = 1 + (2 * torch.rand(2, b) - 1) * magnitude
    cos, sin = angle.cos(), angle.sin()
    matrices = torch.stack([cos * scales[0], shear - sin, shift_x, sin, cos * scales[1], shift_y], dim=1)
    grid = affine_grid(matrices.view(b, 2, 3), list(images.shape), align_corners=False)
    return grid_sample(images + 1, grid, align_corners=False) - 1  # pixels from beyond the border are black


def erase(images: Tensor, probability: float) -> Tensor:
    """Replace a random rectangle of each image by noise with the given probability."""
    b, _, h, w = images.shape
    area = h * w * (MIN_ERASED_SHARE + (MAX_ERASED_SHARE - MIN_ERASED_SHARE) * torch.rand(b))
    ratio = torch.exp((2 * torch.rand(b) - 1) * -math.log(MIN_ASPECT_RATIO))
    height, width = (area * ratio).sqrt().clamp(max=h), (area / ratio).sqrt().clamp(max=w)
    top, left = torch.rand(b) * (h - height), torch.rand(b) * (w - width)
    rows, columns = torch.arange(h)[None, :] + 0.5, torch.arange(w)[None, :] + 0.5
    inside = ((rows > top[:, None]) & (rows < (top + height)[:, None]))[:, :, None]
    inside = inside & ((columns > left[:, None]) & (columns < (left + width)[:, None]))[:, None, :]  # (b h w)
    erased = (torch.rand(b, 1, 1) < probability) & inside
    return torch.where(erased[:, None], torch.rand_like(images) * 2 - 1, images)


def apply_mixup(images: Tensor, labels: Tensor, alpha: float) -> MixedBatch:
    """Mix each image with another of the batch, with weights from Beta(α, α); α = 0 mixes nothing."""
    if not alpha:
        return MixedBatch(images, labels, labels, torch.ones(len(labels)))
    weight = torch.distributions.Beta(alpha, alpha).sample((len(labels),))
    weight = torch.maximum(weight, 1 - weight)  # the first image has the larger weight
    order = torch.randperm(len(labels))
    factor = weight[:, None, None, None]
    return MixedBatch(images * factor + images[order] * (1 - factor), labels, labels[order], weight)
