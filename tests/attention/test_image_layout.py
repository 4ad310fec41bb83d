"""The order of making and the memory of each place, against the paper's definition written out in plain loops."""

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
CANVASES = st.builds(
    ImageBlocks2D,
    height=SIZES,
    width=SIZES,
    query=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    memory=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    channels=st.integers(1, 3),
)
LINES = st.builds(ImageBlocks1D, places=st.integers(1, 20), query=st.integers(1, 6), memory=st.integers(0, 9))


def in_order_of_making(c):
    """Parmar et al. 2018, section 3.3: blocks in raster order, raster order inside, channels of a pixel last."""
    order = []
    for top in range(0, c.height, c.query[0]):
        for left in range(0, c.width, c.query[1]):
            for row in range(top, min(top + c.query[0], c.height)):
                for column in range(left, min(left + c.query[1], c.width)):
                    order += [(row, column, channel) for channel in range(c.channels)]
    return order


def may_look(c, query, key, order):
    """The memory block is the query block, h_m rows further up and w_m columns further to both sides; of it, what is
    made already."""
    (row, column, _), (key_row, key_column, _) = order[query], order[key]
    top, left = row // c.query[0] * c.query[0], column // c.query[1] * c.query[1]
    in_memory = (
        top - c.memory[0] <= key_row < top + c.query[0]
        and left - c.memory[1] <= key_column < left + c.query[1] + c.memory[1]
    )
    return in_memory and key <= query


@given(CANVASES)
def test_the_order_is_the_papers(c):
    order = in_order_of_making(c)
    assert c.order().tolist() == [(r * c.width + col) * c.channels + ch for r, col, ch in order]
    rows, columns = c.locate(torch.arange(c.places))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [place[:2] for place in order]


@given(CANVASES)
def test_the_mask_is_the_papers(c):
    order = in_order_of_making(c)
    allowed = (Mask.image_blocks(c) & Mask.causal()).dense(c.places, c.places)[0, 0]
    for query in range(c.places):
        assert allowed[query].tolist() == [may_look(c, query, key, order) for key in range(c.places)]


def test_it_is_not_the_raster_order_of_the_whole_image():
    """With blocks taller than one row the two differ: what lies lower on the left is made already."""
    c = image_blocks_2d(4, 4, query=(2, 2), memory=(1, 1))
    painted = (Mask.image_blocks(c) & Mask.causal()).dense(16, 16)[0, 0]
    raster = (Mask.image(4, 4, query=(2, 2), memory=(1, 1)) & Mask.causal()).dense(16, 16)[0, 0]
    order = c.raster_indices()
    in_raster = torch.zeros(16, 16, dtype=torch.bool)
    in_raster[order[:, None], order] = painted
    assert not in_raster.equal(raster)
    assert bool(in_raster[2, 5]) and not bool(raster[2, 5])  # (0, 2) looks at (1, 1), in the finished block on its left
    flat = image_blocks_2d(4, 4, query=(1, 4), memory=(1, 1))  # whole rows as blocks: there both are the same
    same = (Mask.image(4, 4, query=(1, 4), memory=(1, 1)) & Mask.causal()).dense(16, 16)
    assert (Mask.image_blocks(flat) & Mask.causal()).dense(16, 16).equal(same)


@given(st.one_of(CANVASES, LINES))
def test_blocks_are_stretches_of_the_sequence(layout):
    bounds = [layout.bounds(block) for block in range(layout.blocks)]
    assert bounds[0][0] == 0 and bounds[-1][1] == layout.places
    assert all(end == first for (_, end), (first, _) in pairwise(bounds))
    for block, (first, end) in enumerate(bounds):
        assert {layout.block_of(place) for place in range(first, end)} == {block}


@given(st.one_of(CANVASES, LINES))
def test_what_is_seen_and_what_is_wanted(layout):
    """A cache holds a place exactly as long as some place to come may look at it."""
    places = torch.arange(layout.places)
    allowed = layout.allows(places[:, None], places) & (places <= places[:, None])
    for block in range(layout.blocks):
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


@given(LINES)
def test_a_line_is_blocks_in_raster_order(layout):
    mask = Mask.block(layout.query, layout.memory).dense(layout.places, layout.places)
    places = torch.arange(layout.places)
    assert layout.allows(places[:, None], places).equal(mask[0, 0])
    assert layout.order().equal(places)


def test_wrong_sizes():
    with pytest.raises(ShapeError, match=r"^line: places=4, query=0, memory=1; a block has a place at least, memory"):
        image_blocks_1d(4, query=0, memory=1)
    with pytest.raises(ShapeError, match=r"^canvas: 4x4x0, query=\(2, 2\), memory=\(0, 1\); sizes are at least 1"):
        image_blocks_2d(4, 4, query=(2, 2), memory=(0, 1), channels=0)
    assert image_blocks_1d(4, query=2, memory=0).num_blocks == 2


def test_more_keys_than_places():
    with pytest.raises(ShapeError, match=r"^mask: Canvas\(height=2, .* has no place for 5 keys; build it for a larger"):
        Mask.image_blocks(image_blocks_2d(2, 2, query=(1, 1), memory=(1, 1))).dense(5, 5)


def test_two_canvases_do_not_combine():
    one, other = (Mask.image_blocks(image_blocks_2d(2, 2, query=(1, 1), memory=(1, n))) for n in (1, 2))
    with pytest.raises(ShapeError, match="cannot combine Canvas"):
        _ = one & other
    assert (one & one & Mask.causal()).layout == one.layout
