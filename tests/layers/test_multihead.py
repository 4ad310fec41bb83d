"""Multi-head attention: input widths, head widths, extra features, KV cache and errors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.record import record
from regard.attention.score import ScoreFunction
from regard.core.errors import ConfigError, ShapeError
from regard.core.registry import registered_names
from regard.layers.multihead import HeadDims, MultiHeadAttention


def make(dims, score="scaled_dot"):
    return MultiHeadAttention(Attend(scores.build(score, dims.head_dim)), dims)


def test_both_ways_to_size_heads():
    assert HeadDims.split_evenly(12, 3) == HeadDims(12, 12, 12, 12, 3, 4, 4)
    assert HeadDims.per_head(12, 3, 5) == HeadDims(12, 12, 12, 12, 3, 5, 5)
    x = torch.randn(2, 4, 12)
    for dims in (HeadDims.split_evenly(12, 3), HeadDims.per_head(12, 3, 5)):
        heads = make(dims)
        assert heads(x, heads.project_kv(x)).shape == (2, 4, 12)


@pytest.mark.parametrize("name", registered_names("regard.attention.scores"))
def test_queries_keys_and_values_of_different_widths(name):
    dims = HeadDims(query_dim=5, key_dim=6, value_dim=7, out_dim=8, num_heads=2, head_dim=3, head_value_dim=4)
    heads = make(dims, name)
    q, k, v = torch.randn(2, 3, 5), torch.randn(2, 4, 6), torch.randn(2, 4, 7)
    kv = heads.project_kv(k, v)
    actual = heads(q, kv, Mask.lengths(torch.tensor([4, 2])))
    weights = heads.attend.weigh(
        heads.q(q).view(2, 3, 2, 3).transpose(1, 2), kv.k.tensor, Mask.lengths(torch.tensor([4, 2]))
    )
    values = heads.v(v).view(2, 4, 2, 4)  # (b s h e)
    expected = heads.o(torch.einsum("bhts,bshe->bthe", weights, values).flatten(2))
    torch.testing.assert_close(actual, expected)
    assert actual.shape == (2, 3, 8)


@pytest.mark.parametrize("name", registered_names("regard.attention.scores"))
def test_an_empty_cache_has_length_zero(name):
    heads = make(HeadDims.split_evenly(8, 2), name)
    x = torch.randn(3, 4, 8)
    empty = heads.empty_cache(x)
    assert empty.length == 0 and empty.keys.shape[0] == 3
    assert empty.append(heads.project_kv(x)).k.tensor.equal(heads.project_kv(x).keys)
    assert heads(x, empty).equal(heads.o.bias.expand(3, 4, 8))  # no keys


def test_the_cache_grows():
    heads = make(HeadDims.split_evenly(8, 2))
    x = torch.randn(1, 5, 8)
    grown = heads.project_kv(x[:, :2]).append(heads.project_kv(x[:, 2:]))
    expected = heads.project_kv(x)
    assert grown.length == 5
    torch.testing.assert_close((grown.k, grown.v), (expected.k, expected.v))


def test_extra_features_are_not_projected():
    class SameGroup(ScoreFunction):
        def forward(self, q, k):
            return q[..., :-1] @ k[..., :-1].mT + 10 * (q[..., -1:] == k[..., -1:].mT)

    heads = MultiHeadAttention(Attend(SameGroup()), HeadDims.split_evenly(8, 2))
    x, groups = torch.randn(1, 3, 8), torch.tensor([[[1], [2], [1]]])
    kv = heads.project_kv(x, extra=groups)
    assert kv.keys[0, 1, :, -1].tolist() == [1, 2, 1]
    with record(heads) as maps:
        assert heads(x, kv, Mask(), groups).shape == x.shape
    (recorded,) = maps.values()
    assert (recorded.weights[0, :, 0, 1] < 0.01).all()  # the second key is in another group


def test_padding_of_the_keys_is_masked():
    heads = make(HeadDims.split_evenly(8, 2))
    x = torch.randn(2, 4, 8)
    kv = heads.project_kv(x)
    expected = heads(x, kv, Mask.lengths(torch.tensor([4, 2])))
    torch.testing.assert_close(heads(x, kv._replace(mask=Mask.lengths(torch.tensor([4, 2])))), expected)


@pytest.mark.parametrize(
    ("construct", "message"),
    [
        (
            lambda: HeadDims.split_evenly(10, 3),
            "dim=10 cannot be divided among heads=3; choose a multiple of 3, or HeadDims.per_head",
        ),
        (lambda: HeadDims.split_evenly(10, 0), "dim=10 cannot be divided among heads=0"),
        (lambda: HeadDims.per_head(10, 2, 0), "HeadDims: head_dim=0 must be at least 1"),
        (
            lambda: MultiHeadAttention(Attend(scores.build("concat", 5)), HeadDims.split_evenly(8, 2)),
            "the score has dim=5 but head_dim=4",
        ),
    ],
)
def test_widths_that_do_not_fit(construct, message):
    with pytest.raises(ConfigError) as error:
        construct()
    assert message in str(error.value)


def test_inputs_that_do_not_fit():
    heads = make(HeadDims(query_dim=5, key_dim=6, value_dim=7, out_dim=8, num_heads=2, head_dim=3, head_value_dim=4))
    q, k = torch.randn(2, 3, 5), torch.randn(2, 4, 6)
    with pytest.raises(
        ShapeError, match=r"MultiHeadAttention: values have shape \(2, 4, 6\); pass \(batch, length, 7\)"
    ):
        heads.project_kv(k)
    with pytest.raises(ShapeError, match=r"keys have shape \(4, 6\)"):
        heads.project_kv(k[0])
    with pytest.raises(ShapeError, match=r"queries have shape \(2, 4, 6\); pass \(batch, length, 5\)"):
        heads(k, heads.project_kv(k, torch.randn(2, 4, 7)))
    assert heads(q, heads.project_kv(k, torch.randn(2, 4, 7))).shape == (2, 3, 8)


def test_heads_sharded_over_processes():
    """As in tensor parallelism: split the rows of W_Q, W_K, W_V and the columns of W_O, and add the outputs."""
    heads = MultiHeadAttention(Attend(scores.build("scaled_dot", 3)), HeadDims.split_evenly(12, 4))
    x = torch.randn(2, 5, 12)
    whole = heads(x, heads.project_kv(x), Mask.causal())
    total = torch.zeros_like(whole)
    for part in range(2):
        local = copy.deepcopy(heads)  # out_features is still the total width
        for layer in (local.q, local.k, local.v):
            layer.weight = nn.Parameter(layer.weight.detach().chunk(2)[part])
            layer.bias = nn.Parameter(layer.bias.detach().chunk(2)[part])
        local.o.weight = nn.Parameter(local.o.weight.detach().chunk(2, dim=1)[part])
        local.o.bias = None if part else local.o.bias
        total += local(x, local.project_kv(x), Mask.causal())
    torch.testing.assert_close(total, whole)
