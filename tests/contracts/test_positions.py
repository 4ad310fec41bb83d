"""Invariants of every registered position scheme: chunks, cache, padding, lengths beyond the table."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.errors import ShapeError
from regard.core.registry import registered_names
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.positions import build

SCHEMES = registered_names("regard.layers.positions")
DIM, HEADS, LENGTH = 8, 2, 7


class Layer(torch.nn.Module):
    """One causal attention layer with positions, run step by step with a cache or at once."""

    def __init__(self, name, max_length=LENGTH + 4):
        super().__init__()
        self.position = build(name, DIM, max_length=max_length)
        position_bias = self.position.position_bias(heads=HEADS, dim=DIM // HEADS)
        self.heads = MultiHeadAttention(
            Attend(scores.build("scaled_dot", DIM // HEADS), position_bias=position_bias),
            HeadDims.split_evenly(DIM, HEADS),
        )
        self.double()

    def forward(self, x, past=None, mask=Mask(), start=None):
        past = self.heads.empty_cache(x) if past is None else past
        x = self.position(x, past.length if start is None else start)
        past = past.append(self.heads.project_kv(x))
        return self.heads(x, past, Mask.causal() & mask), past


def features(b=2, t=LENGTH):
    return torch.randn(b, t, DIM, dtype=torch.float64)


def test_registered_names():
    assert {"none", "index", "fraction", "binary", "sinusoidal", "learned", "relative", "rotary"} <= set(SCHEMES)


@pytest.mark.parametrize("cuts", [(1,) * LENGTH, (3, 1, 3), (LENGTH - 1, 1)])
@pytest.mark.parametrize("name", SCHEMES)
def test_any_chunks(name, cuts):
    layer, x = Layer(name), features()
    whole, _ = layer(x)
    past, parts = None, []
    for chunk in x.split(cuts, dim=1):
        out, past = layer(chunk, past)
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


@pytest.mark.parametrize("name", SCHEMES)
def test_padding_on_the_right_and_on_the_left(name):
    layer, x = Layer(name), features()
    alone, _ = layer(x)
    padding = features(t=3) * 9
    keys = torch.arange(LENGTH + 3)
    right, _ = layer(torch.cat([x, padding], dim=1), mask=Mask.present((keys < LENGTH).expand(2, -1)))
    torch.testing.assert_close(right[:, :LENGTH], alone)
    start = torch.full((2,), -3)  # each row starts this many positions before its first word
    left, _ = layer(torch.cat([padding, x], dim=1), mask=Mask.present((keys >= 3).expand(2, -1)), start=start)
    torch.testing.assert_close(left[:, 3:], alone)


@pytest.mark.parametrize("name", SCHEMES)
def test_each_row_may_have_a_different_start(name):
    position, x = build(name, DIM, max_length=20), features().float()
    rows = position(x, torch.tensor([2, 5]))
    for row, start in enumerate((2, 5)):
        torch.testing.assert_close(rows[row : row + 1], position(x[row : row + 1], start))


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("dim", [1, 2, 5, 40])
def test_any_width_and_an_empty_sequence(name, dim):
    position = build(name, dim, max_length=4)
    for length in (0, 1, 4):
        x = torch.randn(2, length, dim)
        assert position(x).shape == x.shape and position(x).dtype == x.dtype


@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "learned"])
def test_sequences_longer_than_the_maximum_length(name):
    layer, x = Layer(name, max_length=3), features()
    whole, _ = layer(x)
    assert whole.isfinite().all()
    out, past = layer(x[:, :5])
    rest, _ = layer(x[:, 5:], past)
    torch.testing.assert_close(torch.cat([out, rest], dim=1), whole)


@pytest.mark.parametrize("name", SCHEMES)
def test_order_matters_except_without_positions(name):
    """Swapping two words changes the output of a third one, unless there are no positions."""
    layer, x = Layer(name), features(b=1)
    output, swapped_output = (layer(x[:, order])[0][0, -1] for order in ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 5, 4, 6]))
    assert ((output - swapped_output).abs().max() < 1e-12) == (name == "none")


def test_a_learned_table_ends():
    position = build("learned", 4, max_length=5)
    text = "learned positions end at length 5 but the sequence has 6; train with longer sequences or use sinusoidal"
    with pytest.raises(ShapeError, match=text):
        position(torch.randn(1, 6, 4))
    with pytest.raises(ShapeError, match="the sequence has 7"):
        position(torch.randn(2, 1, 4), torch.tensor([2, 6]))
    assert position(torch.randn(1, 2, 4), 3).shape == (1, 2, 4)
