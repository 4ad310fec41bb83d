"""Generation order and memory of each position, compared with the paper's definition in plain loops."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.image_layout import (
    ImageBlocks1D,
    ImageBlocks2D,
    image_blocks_1d,
    image_blocks_2d,
    retained_positions,
    visible_positions,
)
from regard.attention.masks import Mask
from regard.core.errors import ShapeError

SIZES = st.integers(1, 7)
LAYOUTS_2D = st.builds(
    ImageBlocks2D,
    height=SIZES,
    width=SIZES,
    query=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    memory=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    channels=st.integers(1, 3),
)
LAYOUTS_1D = st.builds(ImageBlocks1D, length=st.integers(1, 20), query=st.integers(1, 6), memory=st.integers(0, 9))


def generation_order(c):
    """Return (row, column, channel) of each position.

    Parmar et al. 2018, section 3.3: blocks in raster order, pixels in raster order inside a block, then channels.
    """
    order = []
    for top in range(0, c.height, c.query[0]):
        for left in range(0, c.width, c.query[1]):
            for row in range(top, min(top + c.query[0], c.height)):
                for column in range(left, min(left + c.query[1], c.width)):
                    order += [(row, column, channel) for channel in range(c.channels)]
    return order


def may_attend(c, query, key, order):
    """Return True if the key is in the query's memory block and already generated.

    The memory block is the query block, extended by h_m rows above and w_m columns on both sides.
    """
    (row, column, _), (key_row, key_column, _) = order[query], order[key]
    top, left = row // c.query[0] * c.query[0], column // c.query[1] * c.query[1]
    in_memory = (
        top - c.memory[0] <= key_row < top + c.query[0]
        and left - c.memory[1] <= key_column < left + c.query[1] + c.memory[1]
    )
    return in_memory and key <= query


@given(LAYOUTS_2D)
def test_generation_order(c):
    order = generation_order(c)
    assert c.raster_indices().tolist() == [(r * c.width + col) * c.channels + ch for r, col, ch in order]
    rows, columns = c.locate(torch.arange(c.length))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [position[:2] for position in order]


@given(LAYOUTS_2D)
def test_mask_in_generation_order(c):
    order = generation_order(c)
    allowed = (Mask.image_blocks(c) & Mask.causal()).dense(c.length, c.length)[0, 0]
    for query in range(c.length):
        assert allowed[query].tolist() == [may_attend(c, query, key, order) for key in range(c.length)]


def test_generation_order_differs_from_raster_order():
    """With blocks taller than one row they differ: lower rows of the block on the left are already generated."""
    c = image_blocks_2d(4, 4, query=(2, 2), memory=(1, 1))
    by_block = (Mask.image_blocks(c) & Mask.causal()).dense(16, 16)[0, 0]
    raster = (Mask.image(4, 4, query=(2, 2), memory=(1, 1)) & Mask.causal()).dense(16, 16)[0, 0]
    order = c.raster_indices()
    in_raster = torch.zeros(16, 16, dtype=torch.bool)
    in_raster[order[:, None], order] = by_block
    assert not in_raster.equal(raster)
    assert bool(in_raster[2, 5]) and not bool(
        raster[2, 5]
    )  # (0, 2) attends to (1, 1), in the finished block on its left
    flat = image_blocks_2d(4, 4, query=(1, 4), memory=(1, 1))  # with entire rows as blocks both are the same
    same = (Mask.image(4, 4, query=(1, 4), memory=(1, 1)) & Mask.causal()).dense(16, 16)
    assert (Mask.image_blocks(flat) & Mask.causal()).dense(16, 16).equal(same)


@given(st.one_of(LAYOUTS_2D, LAYOUTS_1D))
def test_blocks_are_ranges_of_the_sequence(layout):
    bounds = [layout.bounds(block) for block in range(layout.num_blocks)]
    assert bounds[0][0] == 0 and bounds[-1][1] == layout.length
    assert all(end == first for (_, end), (first, _) in pairwise(bounds))
    for block, (first, end) in enumerate(bounds):
        assert {layout.block_of(position) for position in range(first, end)} == {block}


@given(st.one_of(LAYOUTS_2D, LAYOUTS_1D))
def test_visible_and_retained_positions(layout):
    """A cache retains a position exactly as long as a later position may attend to it."""
    positions = torch.arange(layout.length)
    allowed = layout.allows(positions[:, None], positions) & (positions <= positions[:, None])
    for block in range(layout.num_blocks):
        first, end = layout.bounds(block)
        assert (
            visible_positions(layout, block).tolist()
            == allowed[first:end, :first].any(dim=0).nonzero().flatten().tolist()
        )
        assert allowed[first:end, visible_positions(layout, block)].all()  # all queries of a block share its memory
        assert (
            retained_positions(layout, block).tolist()
            == allowed[first:, :first].any(dim=0).nonzero().flatten().tolist()
        )


@given(LAYOUTS_1D)
def test_1d_blocks_are_in_raster_order(layout):
    mask = Mask.block(layout.query, layout.memory).dense(layout.length, layout.length)
    positions = torch.arange(layout.length)
    assert layout.allows(positions[:, None], positions).equal(mask[0, 0])
    assert layout.raster_indices().equal(positions)


def test_invalid_sizes():
    with pytest.raises(ShapeError, match=r"^image_blocks_1d: length=4, query=0, memory=1; length and query are at"):
        image_blocks_1d(4, query=0, memory=1)
    with pytest.raises(ShapeError, match=r"^image_blocks_2d: 4x4x0, query=\(2, 2\), memory=\(0, 1\); sizes are at"):
        image_blocks_2d(4, 4, query=(2, 2), memory=(0, 1), channels=0)
    assert image_blocks_1d(4, query=2, memory=0).num_blocks == 2


def test_more_keys_than_positions():
    with pytest.raises(ShapeError, match=r"^mask: ImageBlocks2D\(height=2, .* has fewer than 5 positions; build it"):
        Mask.image_blocks(image_blocks_2d(2, 2, query=(1, 1), memory=(1, 1))).dense(5, 5)


def test_two_layouts_cannot_be_combined():
    narrow, wide = (Mask.image_blocks(image_blocks_2d(2, 2, query=(1, 1), memory=(1, n))) for n in (1, 2))
    with pytest.raises(ShapeError, match="cannot combine ImageBlocks2D"):
        _ = narrow & wide
    assert (narrow & narrow & Mask.causal()).layout == narrow.layout
