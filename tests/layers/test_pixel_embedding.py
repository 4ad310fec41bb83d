"""Positions of images, and their input embeddings."""

import pytest
import torch

from regard.attention.image_layout import image_blocks_2d
from regard.core.data_specs import ImageGenerationSpec
from regard.layers.pixel_embedding import NeighbourPixels, PixelEmbedding, PixelPositions, UpsampledCondition
from regard.layers.positions._two_dimensional import Position2D

SIZES = ImageGenerationSpec(height=4, width=5, channels=3, levels=6, low_res_size=(2, 2))


def pixel_positions(channels):
    layout = image_blocks_2d(4, 5, query=(2, 2), memory=(1, 1), channels=3 // channels)
    return layout, PixelPositions.from_order(layout.raster_indices(), SIZES, channels_per_position=channels)


@pytest.mark.parametrize("channels", [1, 3])
def test_rows_columns_and_raster_indices(channels):
    layout, positions = pixel_positions(channels)
    rows, columns = layout.locate(torch.arange(layout.length))
    assert positions.rows.equal(rows) and positions.columns.equal(columns)
    raster = positions.raster_indices(SIZES)
    assert raster.shape == ((60,) if channels == 1 else (20, 3)) and raster.flatten().sort().values.equal(
        torch.arange(60)
    )
    image = torch.arange(60).view(4, 5, 3)
    for position in (0, 7, 19):
        at = image[positions.rows[position], positions.columns[position]]
        assert image.flatten()[raster[position]].equal(at[positions.channels[position]] if channels == 1 else at)


@pytest.mark.parametrize("channels", [1, 3])
def test_similar_levels_start_with_similar_embeddings(channels):
    _, positions = pixel_positions(channels)
    sizes = ImageGenerationSpec(4, 5, 3, levels=64)
    embedding = PixelEmbedding(32, Position2D("sinusoidal", 32, height=4, width=5), positions, levels=sizes.levels)
    table = embedding.level.weight.view(3, 65, 32)
    near, far = (table[:, 10] - table[:, 11]).norm(), (table[:, 10] - table[:, 50]).norm()
    assert near < far and not table[0].equal(table[1])
    tokens = torch.randint(64, (2, 8) if channels == 1 else (2, 8, 3))
    whole = embedding(tokens, 0)
    assert torch.cat([embedding(tokens[:, :3], 0), embedding(tokens[:, 3:], 3)], dim=1).allclose(whole)
    assert embedding.position_features().unique(dim=0).shape == (
        60 // channels,
        32,
    )  # every position has a different encoding


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("radius", [1, 2])
def test_neighbour_pixels_are_those_already_generated(channels, radius):
    """Written out: for every position the brightness of each neighboring pixel generated before it, and flags of those
    pixels."""
    _, positions = pixel_positions(channels)
    layer = NeighbourPixels(4, positions, sizes=SIZES, radius=radius)
    generated = torch.randint(6, (1, 60))  # levels in the order of the sequence
    per_pixel = 3 // channels
    pixel_index = {}  # (row, column) -> index of the pixel in the sequence
    for pixel in range(20):
        position = pixel * per_pixel
        pixel_index[int(positions.rows[position]), int(positions.columns[position])] = pixel
    steps = [(i, j) for i in range(-radius, radius + 1) for j in range(-radius, radius + 1)]
    for position in range(len(positions.rows)):
        row, column = int(positions.rows[position]), int(positions.columns[position])
        values, flags = [], []
        for down, across in steps:
            pixel = pixel_index.get((row + down, column + across), 99)
            is_generated = pixel < position // per_pixel
            flags.append(float(is_generated))
            values += (generated[0, pixel * 3 : pixel * 3 + 3] * 0.4 - 1).tolist() if is_generated else [0.0] * 3
        expected = layer.project(torch.tensor([values + flags]))
        torch.testing.assert_close(layer(generated, position, 1)[0], expected, atol=1e-5, rtol=1e-5)


def test_upsampling_is_bicubic():
    _, positions = pixel_positions(3)
    layer = UpsampledCondition(3, positions, sizes=SIZES, radius=0)
    with torch.no_grad():
        layer.project.weight.copy_(torch.eye(3))
        layer.project.bias.zero_()
    low_res = torch.randint(6, (2, 12))
    brightness = low_res.view(2, 2, 2, 3).permute(0, 3, 1, 2) * 0.4 - 1
    upsampled = torch.nn.functional.interpolate(brightness, (4, 5), mode="bicubic")
    features = layer(low_res)
    for position in range(20):
        torch.testing.assert_close(
            features[:, position], upsampled[:, :, positions.rows[position], positions.columns[position]]
        )
