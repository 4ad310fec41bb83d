"""Metrics of image generation: similarity to the true image, and the bits of a histogram baseline."""

from __future__ import annotations

import numpy as np

from regard.core.extras import require
from regard.data.images.image_files import Pixels
from regard.data.images.resize import to_levels

MIN_WINDOW, MAX_WINDOW = 3, 7  # side of the window of SSIM, in pixels


def quality(images: Pixels, truth: Pixels) -> dict[str, float]:
    """Return mean PSNR and SSIM (scikit-image) of images against the true images (b h w c).

    SSIM compares the variances in a window of at least 3 x 3 pixels. It is left out for smaller images.
    """
    metrics = require("skimage.metrics", extra="vision")
    pairs = list(zip(truth, images, strict=True))
    with np.errstate(divide="ignore"):  # of equal images the PSNR is infinite
        scores = {"psnr": float(np.mean([metrics.peak_signal_noise_ratio(a, b, data_range=255) for a, b in pairs]))}
    window = min(MAX_WINDOW, (min(truth.shape[1:3]) - 1) // 2 * 2 + 1)  # odd, and not wider than the image
    if window < MIN_WINDOW:
        return scores
    settings = {"data_range": 255, "win_size": window, "channel_axis": 2}
    return scores | {"ssim": float(np.mean([metrics.structural_similarity(a, b, **settings) for a, b in pairs]))}


def histogram_bits(pixels: Pixels, held_out: Pixels, levels: int) -> float:
    """Return bits per dimension of held-out images, each level predicted by its frequency in the training images."""
    counts = np.bincount(to_levels(pixels, levels).ravel(), minlength=levels) + 1.0  # no level is impossible
    test_counts = np.bincount(to_levels(held_out, levels).ravel(), minlength=levels)
    return float(-(test_counts * np.log2(counts / counts.sum())).sum() / test_counts.sum())
