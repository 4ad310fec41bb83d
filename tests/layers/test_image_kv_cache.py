"""An image generated in chunks equals the image computed at once, and the cache only keeps keys that are still
visible."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.image_layout import (
    ImageBlocks1D,
    ImageBlocks2D,
    image_blocks_1d,
    image_blocks_2d,
    retained_positions,
)
from regard.core.errors import ShapeError
from regard.core.state_tree import map_tensors, select
from regard.layers.image_kv_cache import ImageKVCache, ImageMultiHeadAttention, causal_image_mask
from regard.layers.multihead import HeadDims

CANVASES = st.builds(
    ImageBlocks2D,
    height=st.integers(1, 6),
    width=st.integers(1, 6),
    query=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    memory=st.tuples(st.integers(0, 4), st.integers(0, 3)),
    channels=st.integers(1, 3),
)
LAYOUTS = st.one_of(
    CANVASES, st.builds(ImageBlocks1D, length=st.integers(1, 25), query=st.integers(1, 6), memory=st.integers(0, 9))
)


def heads(layout):
    return ImageMultiHeadAttention(
        Attend(scores.build("scaled_dot", 4)), HeadDims.split_evenly(8, 2), layout=layout
    ).double()


def run(layer, x, cache):
    cache = cache.append(layer.project_kv(x))
    return layer(x, cache), cache


def by_definition(layer, x):
    """Dense attention with the mask of the layout."""
    kv = layer.project_kv(x)
    q = layer._split("queries", x, layer.q)
    attended = layer.attend.weigh(q, kv.k.tensor, causal_image_mask(layer.layout)) @ kv.v
    return layer.o(attended.transpose(1, 2).flatten(2))


@settings(max_examples=60)
@given(layout=LAYOUTS, data=st.data())
def test_any_chunks(layout, data):
    layer, x = heads(layout), torch.randn(2, layout.length, 8, dtype=torch.float64)
    cuts, remaining = [], layout.length
    while remaining:
        cuts.append(data.draw(st.integers(1, remaining)))
        remaining -= cuts[-1]
    cache, parts = ImageKVCache.empty(layer.layout, layer.empty_cache(x)), []
    for chunk in x.split(cuts, dim=1):
        out, cache = run(layer, chunk, cache)
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, dim=1), by_definition(layer, x))


@pytest.mark.parametrize(
    "layout", [image_blocks_2d(6, 5, query=(2, 2), memory=(2, 1), channels=2), image_blocks_1d(60, query=7, memory=5)]
)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_position_by_position_with_and_without_gradients(layout, requires_grad):
    layer, x = heads(layout), torch.randn(2, 60, 8, dtype=torch.float64, requires_grad=requires_grad)
    with torch.set_grad_enabled(requires_grad):
        cache, parts = ImageKVCache.empty(layer.layout, layer.empty_cache(x)), []
        for chunk in x.split(1, dim=1):
            out, cache = run(layer, chunk, cache)
            parts.append(out)
        output = torch.cat(parts, dim=1)
    torch.testing.assert_close(output, by_definition(layer, x))
    if requires_grad:
        gradient, expected = (
            torch.autograd.grad(out.square().sum(), x)[0] for out in (output, by_definition(layer, x))
        )
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    "layout",
    [
        image_blocks_2d(12, 12, query=(3, 4), memory=(3, 2)),
        image_blocks_2d(7, 9, query=(2, 4), memory=(1, 1), channels=3),
        image_blocks_1d(100, query=10, memory=6),
    ],
)
@torch.no_grad()
def test_keys_that_are_not_needed_are_dropped(layout):
    layer, x = heads(layout), torch.randn(1, layout.length, 8, dtype=torch.float64)
    cache = ImageKVCache.empty(layer.layout, layer.empty_cache(x))
    cached = []
    for position, chunk in enumerate(x.split(1, dim=1)):
        _, cache = run(layer, chunk, cache)
        cached.append(cache.current.length + cache.later.length)
        block = layout.block_of(min(position + 1, layout.length - 1))
        if position + 1 < layout.length and position + 1 == layout.bounds(block)[0]:
            assert cached[-1] == len(retained_positions(layout, block))  # exactly the keys that are still needed
    assert max(cached) < layout.length


@torch.no_grad()
def test_a_prefix_at_once_and_the_rest_step_by_step():
    layout = image_blocks_2d(6, 6, query=(2, 3), memory=(2, 1))
    layer, x = heads(layout), torch.randn(2, 36, 8, dtype=torch.float64)
    for first in (1, 5, 6, 17, 35):
        out, cache = run(layer, x[:, :first], ImageKVCache.empty(layer.layout, layer.empty_cache(x)))
        parts = [out]
        for chunk in x[:, first:].split(1, dim=1):
            out, cache = run(layer, chunk, cache)
            parts.append(out)
        torch.testing.assert_close(torch.cat(parts, dim=1), by_definition(layer, x))


@torch.no_grad()
def test_a_state_can_be_continued_twice_and_rows_can_be_selected():
    layout = image_blocks_2d(4, 6, query=(2, 2), memory=(1, 2))
    layer, x = heads(layout), torch.randn(3, 24, 8, dtype=torch.float64)
    for first in (3, 10):
        state = ImageKVCache.empty(layer.layout, layer.empty_cache(x))
        for chunk in x[:, :first].split(1, dim=1):
            _, state = run(layer, chunk, state)
        cloned = map_tensors(state, lambda tensor: tensor.clone())
        once, _ = run(layer, x[:, first : first + 9], state)
        again, _ = run(layer, x[:, first : first + 9], state)
        fresh, _ = run(layer, x[:, first : first + 9], cloned)
        assert once.equal(again) and once.equal(fresh)
        rows = torch.tensor([2, 0])
        chosen, _ = run(layer, x[rows, first : first + 9], select(state, rows))
        torch.testing.assert_close(chosen, once[rows])


def test_a_complete_image_cannot_be_extended():
    layout = image_blocks_2d(2, 2, query=(1, 1), memory=(1, 1))
    layer, x = heads(layout), torch.randn(1, 4, 8, dtype=torch.float64)
    _, cache = run(layer, x, ImageKVCache.empty(layer.layout, layer.empty_cache(x)))
    with pytest.raises(
        ShapeError, match=r"^the image has 4 positions but the cache would get 5; the image is complete$"
    ):
        run(layer, x[:, :1], cache)


def test_a_plain_kv_cache():
    layer, x = heads(image_blocks_1d(9, query=3, memory=3)), torch.randn(2, 5, 8, dtype=torch.float64)
    plain = super(ImageMultiHeadAttention, layer).forward(x, layer.project_kv(x))
    torch.testing.assert_close(layer(x, layer.project_kv(x)), plain)
