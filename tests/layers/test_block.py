"""A block is the formula of the paper: self-attention, cross-attention and feed-forward network, each with its norm."""

from functools import partial

import pytest
import torch
from torch.nn.functional import gelu

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.layers.block import Block
from regard.layers.feedforward import FeedForward
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import NORMS

DIM = 8


def heads():
    return MultiHeadAttention(Attend(scores.build("scaled_dot", DIM // 2)), HeadDims.split_evenly(DIM, 2))


def block(norm="pre", cross=False, **settings):
    make_norm = partial(NORMS[norm], DIM, 0.1)
    network = FeedForward(DIM, 12, **settings)
    return Block(heads(), network, make_norm=make_norm, cross_attention=heads() if cross else None).eval()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("mask", [Mask(), Mask.causal()])
def test_the_parts_in_their_order(norm, cross, mask):
    layer, x, source = block(norm, cross), torch.randn(2, 4, DIM), torch.randn(2, 3, DIM)
    source_mask = Mask.lengths(torch.tensor([3, 1]))
    output, cache = layer(x, mask, source=layer.project_kv(source, source_mask) if cross else None)
    expected = layer.around_self(x, lambda y: layer.self_attn(y, layer.self_attn.project_kv(y), mask))
    if cross:
        source_kv = layer.cross_attn.project_kv(source)
        expected = layer.around_cross(expected, lambda y: layer.cross_attn(y, source_kv, source_mask))
    expected = layer.around_feedforward(expected, layer.feedforward)
    torch.testing.assert_close(output, expected)
    assert cache.length == 4


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_the_cache_replaces_earlier_tokens(cut):
    layer, x = block(), torch.randn(2, 4, DIM)
    whole, _ = layer(x, Mask.causal())
    first, past = layer(x[:, :cut], Mask.causal(), past=layer.empty_cache(x))
    second, past = layer(x[:, cut:], Mask.causal(), past=past)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    assert past.length == 4


def test_parameter_names():
    names = {name.split(".")[0] for name, _ in block(cross=True).named_parameters()}
    assert names == {"self_attn", "cross_attn", "feedforward", "around_self", "around_cross", "around_feedforward"}
    assert not hasattr(block(), "cross_attn")


def test_another_activation():
    layer, x = block(activation=gelu), torch.randn(2, 3, DIM)
    network = layer.feedforward
    torch.testing.assert_close(network(x), network.down(gelu(network.up(x))))
