"""Places of images, and what enters at each."""

import pytest
import torch

from regard.attention.image_layout import image_blocks_2d
from regard.core.data_specs import ImageGenerationSpec
from regard.layers.pixel_embedding import NeighbourPixels, PixelEmbedding, PixelPositions, UpsampledCondition
from regard.layers.positions._two_dimensional import Position2D

SIZES = ImageGenerationSpec(height=4, width=5, channels=3, levels=6, low_res_size=(2, 2))


def places(each):
    layout = image_blocks_2d(4, 5, query=(2, 2), memory=(1, 1), channels=3 // each)
    return layout, PixelPositions.from_order(layout.raster_indices(), SIZES, channels_per_position=each)


@pytest.mark.parametrize("each", [1, 3])
def test_places_know_where_they_are(each):
    layout, where = places(each)
    rows, columns = layout.locate(torch.arange(layout.length))
    assert where.rows.equal(rows) and where.columns.equal(columns)
    raster = where.raster_indices(SIZES)
    assert raster.shape == ((60,) if each == 1 else (20, 3)) and raster.flatten().sort().values.equal(torch.arange(60))
    image = torch.arange(60).view(4, 5, 3)
    for place in (0, 7, 19):
        at = image[where.rows[place], where.columns[place]]
        assert image.flatten()[raster[place]].equal(at[where.channels[place]] if each == 1 else at)


@pytest.mark.parametrize("each", [1, 3])
def test_near_levels_begin_alike_and_channels_apart(each):
    _, where = places(each)
    sizes = ImageGenerationSpec(4, 5, 3, levels=64)
    embedding = PixelEmbedding(32, Position2D("sinusoidal", 32, height=4, width=5), where, levels=sizes.levels)
    table = embedding.level.weight.view(3, 65, 32)
    near, far = (table[:, 10] - table[:, 11]).norm(), (table[:, 10] - table[:, 50]).norm()
    assert near < far and not table[0].equal(table[1])
    tokens = torch.randint(64, (2, 8) if each == 1 else (2, 8, 3))
    whole = embedding(tokens, 0)
    assert torch.cat([embedding(tokens[:, :3], 0), embedding(tokens[:, 3:], 3)], dim=1).allclose(whole)
    assert embedding.position_features().unique(dim=0).shape == (60 // each, 32)  # every place is told apart


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("reach", [1, 2])
def test_surroundings_are_the_pixels_around_that_are_made(each, reach):
    """Written out: of every place, the brightness of each pixel so near made before its own, and which those are."""
    _, where = places(each)
    layer = NeighbourPixels(4, where, sizes=SIZES, radius=reach)
    made = torch.randint(6, (1, 60))  # levels in the order of the sequence
    per_pixel = 3 // each
    seen = {}  # (row, column) -> number of the pixel in the sequence
    for number in range(20):
        place = number * per_pixel
        seen[int(where.rows[place]), int(where.columns[place])] = number
    steps = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]
    for place in range(len(where.rows)):
        row, column = int(where.rows[place]), int(where.columns[place])
        values, flags = [], []
        for down, across in steps:
            number = seen.get((row + down, column + across), 99)
            there = number < place // per_pixel
            flags.append(float(there))
            values += (made[0, number * 3 : number * 3 + 3] * 0.4 - 1).tolist() if there else [0.0] * 3
        expected = layer.project(torch.tensor([values + flags]))
        torch.testing.assert_close(layer(made, place, 1)[0], expected, atol=1e-5, rtol=1e-5)


def test_an_enlarged_image_is_bicubic():
    _, where = places(3)
    layer = UpsampledCondition(3, where, sizes=SIZES, radius=0)
    with torch.no_grad():
        layer.project.weight.copy_(torch.eye(3))
        layer.project.bias.zero_()
    small = torch.randint(6, (2, 12))
    brightness = small.view(2, 2, 2, 3).permute(0, 3, 1, 2) * 0.4 - 1
    large = torch.nn.functional.interpolate(brightness, (4, 5), mode="bicubic")
    told = layer(small)
    for place in range(20):
        torch.testing.assert_close(told[:, place], large[:, :, where.rows[place], where.columns[place]])
