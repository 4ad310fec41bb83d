"""Attention overlays of captions."""

import io

import numpy as np
from PIL import Image

from regard.tasks.captioning import overlay


def test_attended_cells_are_outlined_and_unchanged_and_the_others_are_dimmed():
    image = np.full((16, 16, 3), 200, np.uint8)
    weights = np.zeros((2, 2))
    weights[1, 0] = 0.7
    weights[0, 1] = 0.3
    drawn = overlay.highlight_attention(image, weights)
    assert (drawn[10:14, 2:6] == 200).all() and (drawn[8:10, :8] == overlay.LINE_COLOR).all()
    none, less = drawn[2:6, 2:6], drawn[2:6, 10:14]
    assert (none == np.round(200 - overlay.DIMMING * (200 - overlay.SHADOW))).all()
    assert (none < less).all() and (less < 200).all()


def test_there_is_a_tile_for_every_word():
    image = np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    words = ["a", "red", "circle", "left", "of", "a", "square"]
    sizes = {}
    for count in (1, 4, 7):
        data = overlay.render_tiles(image, words[:count], np.ones((count, 4)) / 4, (2, 2))
        sizes[count] = Image.open(io.BytesIO(data)).size
    tile = 168 + overlay.GAP
    assert sizes[1][0] == 2 * tile + overlay.GAP and sizes[4][0] == sizes[7][0] == 5 * tile + overlay.GAP
    assert sizes[4][1] == sizes[1][1] < sizes[7][1]


def test_a_photograph_is_reduced_to_a_tile_with_its_proportions():
    photograph = np.zeros((300, 600, 3), np.uint8)
    photograph[:, 300:] = 200
    data = overlay.render_tiles(photograph, [], np.ones((0, 4)), (2, 2))
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    tile = pixels[overlay.GAP : overlay.GAP + 84, overlay.GAP : overlay.GAP + 168]
    assert pixels.shape[1] == 168 + 2 * overlay.GAP and tile[:, :80].max() == 0 and tile[:, 90:].min() == 200


def test_without_attention_there_is_one_tile_with_the_caption():
    data = overlay.render_tiles(np.zeros((10, 20, 1), np.uint8), ["작은", "원"], None, (1, 1))
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    assert pixels.shape[1] == 160 + 2 * overlay.GAP and (pixels[overlay.GAP + 80 :] < 100).any()  # the text is drawn
