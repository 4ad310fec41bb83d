"""The picture of a caption."""

import io

import numpy as np
from PIL import Image

from regard.tasks.captioning import overlay


def test_an_image_is_bright_where_was_looked_and_dim_elsewhere():
    image = np.full((8, 8, 3), 200, np.uint8)
    weights = np.zeros((2, 2))
    weights[1, 0] = 0.7
    made = overlay.tint_by_attention(image, weights).astype(int)
    assert made[6, 1].sum() > 2 * made[1, 1].sum()
    assert (made[1, 1] == 50).all() and (made[:4] == made[0, 0]).all()


def test_a_sheet_has_a_tile_for_every_word():
    image = np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    words = ["a", "red", "circle", "left", "of", "a", "square"]
    sizes = {}
    for number in (1, 4, 7):
        data = overlay.render_tiles(image, words[:number], np.ones((number, 4)) / 4, (2, 2))
        sizes[number] = Image.open(io.BytesIO(data)).size
    tile = 168 + overlay.GAP
    assert sizes[1][0] == 2 * tile + overlay.GAP and sizes[4][0] == sizes[7][0] == 5 * tile + overlay.GAP
    assert sizes[4][1] == sizes[1][1] < sizes[7][1]


def test_without_attention_and_in_grey_it_is_the_image_with_its_caption():
    data = overlay.render_tiles(np.zeros((10, 20, 1), np.uint8), ["작은", "원"], None, (1, 1))
    made = np.asarray(Image.open(io.BytesIO(data)))
    assert made.shape[1] == 160 + 2 * overlay.GAP and (made[overlay.GAP + 80 :] < 100).any()  # something is written
