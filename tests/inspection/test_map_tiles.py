"""Packed weights: four decimals, also of row sums and means over heads, and max pooling."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.inspection.map_tiles import (
    TILE,
    WEIGHT_SCALE,
    Budget,
    pack_floats,
    pack_head,
    pack_map,
    pool,
    pyramid,
    quantize,
)

sizes = st.integers(1, 700)


def rows(t, s, seed=0):
    weights = np.random.default_rng(seed).exponential(1, (t, s)).astype(np.float32) ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


def unpack(text, shape):
    count = shape[0] * shape[1]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).astype(int)
    return ((planes[:count] << 16) | (planes[count : 2 * count] << 8) | planes[2 * count :]).reshape(shape)


@given(sizes, st.integers(0, 5))
def test_numbers_sums_and_means_are_right_to_four_decimals(size, seed):
    weights = rows(3, size, seed).astype(np.float64)
    unpacked = quantize(weights) / WEIGHT_SCALE
    assert np.abs(unpacked - weights).max() < 1 / WEIGHT_SCALE
    on_edge = np.abs(np.modf(weights * 1e4)[0] - 0.5) < 1e-3  # halfway between two displayed values
    assert (np.round(unpacked, 4) == np.round(weights, 4))[~on_edge].all()
    assert np.round(unpacked.sum(axis=-1), 4) == pytest.approx(1, abs=1e-9)
    assert np.abs(unpacked.mean(axis=0) - weights.mean(axis=0)).max() < 1 / WEIGHT_SCALE


def test_zeros_stay_zero():
    weights = np.tril(np.ones((9, 9), np.float32))
    weights /= weights.sum(axis=-1, keepdims=True)
    assert (quantize(weights)[np.triu_indices(9, 1)] == 0).all()


@given(sizes, sizes)
def test_pooling_keeps_the_largest_of_every_four(t, s):
    parts = np.random.default_rng(t).integers(0, WEIGHT_SCALE, (t, s)).astype(np.uint32)
    pooled = pool(parts)
    assert pooled.shape == (-(-t // 2), -(-s // 2))
    i, j = t // 2, s // 2
    block = parts[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
    if block.size:
        assert pooled[i, j] == block.max()
    assert pooled.max() == parts.max()


def test_the_last_level_fits_one_tile():
    levels = pyramid(np.ones((1025, 300), np.uint32))
    assert max(levels[-1].shape) <= TILE < max(levels[-2].shape)
    assert levels[0].shape == (1025, 300)


def test_tiles_hold_the_weights_and_empty_ones_are_left_out():
    weights = np.tril(rows(600, 600))
    head = pack_head(quantize(weights), budget=Budget())
    tiles = head["levels"][0]["tiles"]
    assert tiles[0][2] is None  # above the diagonal of a causal map
    quantized = quantize(weights)
    assert (unpack(tiles[2][1], (88, TILE)) == quantized[512:, TILE : 2 * TILE]).all()


def test_a_budget_leaves_out_the_finest_levels_first():
    parts = quantize(rows(600, 600))
    budget = Budget(remaining=200_000)
    levels = pack_head(parts, budget=budget)["levels"]
    assert levels[0]["tiles"] is None and levels[-1]["tiles"] is not None
    assert budget.remaining >= 0
    nothing_left = pack_head(parts, budget=Budget(remaining=0))["levels"]
    assert [level["tiles"] is None for level in nothing_left] == [True, True, False]


def test_a_map_says_its_shape():
    packed = pack_map(np.stack([rows(4, 5)] * 3), budget=Budget())
    assert packed["shape"] == [3, 4, 5] and len(packed["heads"]) == 3


@pytest.mark.parametrize("shape", [(3,), (2, 5)])
def test_floats_come_back_bit_for_bit(shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    packed = pack_floats(values)
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8).reshape(4, -1)
    back = np.ascontiguousarray(planes[::-1].T).view("<f4").reshape(packed["shape"])  # the lowest byte comes first
    assert (back == values).all()
