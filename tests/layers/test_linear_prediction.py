"""The linear prediction finds linear images in every order, and the residual mixture starts near its errors."""

from dataclasses import replace

import pytest
import torch

from regard.attention.image_layout import image_blocks_2d
from regard.core.data_specs import ImageGenerationSpec
from regard.layers.linear_prediction import LinearPrediction, RidgeRegression, UpscaledPatches
from regard.layers.pixel_embedding import PixelPositions
from regard.layers.pixel_readout import LogisticMixture, ResidualMixture

SIZES = ImageGenerationSpec(height=8, width=8, channels=3, levels=256, num_classes=0)


def positions(query, sizes=SIZES):
    order = image_blocks_2d(sizes.height, sizes.width, query=query, memory=(1, 1)).raster_indices()
    return PixelPositions.from_order(order, sizes, channels_per_position=sizes.channels)


def gradients(count, seed=0):
    """Images (b h·w·c) whose channels are planes of different slopes, which neighbours predict exactly."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    slopes = torch.randint(-4, 5, (count, 2, 1, 1, 3), generator=generator)
    planes = 128 + slopes[:, 0] * rows[..., None] + slopes[:, 1] * columns[..., None]
    return planes.long().flatten(1)


@pytest.mark.parametrize("query", [(8, 8), (4, 4)])
def test_planes_are_predicted_exactly_inside_the_image(query):
    layout = positions(query)
    prediction = LinearPrediction(layout, sizes=SIZES, radius=2)
    order = layout.raster_indices(SIZES)
    prediction.fit(gradients(200), order, torch.zeros(200, 0))
    labels = gradients(20, seed=1)[:, order]  # (b t c)
    predicted = prediction(labels.flatten(1), 0, 64, prediction.patches(torch.zeros(20, 0)))
    truth = labels * (2 / 255) - 1
    predicted = predicted + truth @ prediction.get_buffer("coupling").mT
    errors = (predicted - truth).abs().mean(dim=(0, 2)) * 127.5
    inside = (layout.rows >= 2) & (layout.columns >= 2) & (layout.columns < 6)
    assert errors[inside].mean() < 0.3 * (truth.std() * 127.5)
    assert errors.median() < 3


def test_only_generated_pixels_are_read():
    layout = positions((4, 4))
    prediction = LinearPrediction(layout, sizes=SIZES, radius=2)
    neighbours = prediction.get_buffer("neighbours")
    assert (neighbours < torch.arange(64)[:, None]).all() and (neighbours[1:] >= 0).all()


def test_the_upscaling_is_fitted_without_the_fold_of_an_image():
    """On aligned images whose details follow from the low-resolution image, the regression is better than bicubic."""
    sizes = replace(SIZES, channels=1, low_res_size=(2, 2))
    torch.manual_seed(0)
    details, low_res = torch.randn(4, 64) * 0.2, torch.randn(400, 4) * 0.3
    upscaling = UpscaledPatches(positions((8, 8), sizes), sizes)
    bicubic = upscaling.upscale(low_res)
    images = bicubic + low_res @ details
    held_out = upscaling.fit(low_res, images)
    assert (held_out - images).square().mean() < 0.05 * (bicubic - images).square().mean()
    torch.testing.assert_close(upscaling.upscale(low_res), images, atol=0.1, rtol=0)
    assert upscaling.cut(images).shape == (400, 64, upscaling.num_inputs)
    assert upscaling.cut(images)[:, :, upscaling.num_inputs // 2].equal(images)


def test_ridge_regression_shrinks_towards_the_mean():
    inputs, targets = torch.randn(50, 3, dtype=torch.float64), torch.randn(50, 2, dtype=torch.float64)
    ridge = RidgeRegression.fit(inputs, targets, 1e9)
    torch.testing.assert_close(
        inputs @ ridge.weight + ridge.bias, targets.mean(dim=0).expand(50, -1), atol=1e-4, rtol=0
    )


def test_the_residual_mixture_starts_with_fewer_bits():
    layout = positions((8, 8))
    prediction = LinearPrediction(layout, sizes=SIZES, radius=1)
    order, images = layout.raster_indices(SIZES), gradients(100)
    prediction.fit(images, order, torch.zeros(100, 0))
    residual = ResidualMixture(4, levels=256, channels=3, prediction=prediction)
    labels = images[:10, order]
    linear = prediction(labels.flatten(1), 0, 64, prediction.patches(torch.zeros(10, 0)))
    features = torch.cat([torch.zeros(10, 64, 4), linear], dim=-1).flatten(0, 1)
    plain = LogisticMixture(4, levels=256, channels=3)
    labels = labels.flatten(0, 1)
    assert residual.loss(features, labels) < 0.6 * plain.loss(features[:, :4], labels)
