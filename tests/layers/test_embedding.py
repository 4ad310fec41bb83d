"""Tokens to features: scaled, placed, padding zero; and the table starts at the right size."""

from __future__ import annotations

import pytest
import torch

from regard.layers.embedding import Embedding, embedding_table
from regard.layers.positions import build


def test_scaled_and_placed():
    made = embedding_table(10, 6, pad=0)
    embedding = Embedding(made, build("sinusoidal", 6, max_length=9), dropout=0.0)
    tokens = torch.tensor([[3, 4, 0]])
    places = build("sinusoidal", 6, max_length=9).encode(torch.arange(2, 5), 5)
    torch.testing.assert_close(embedding(tokens, 2), made.weight[tokens] * 6**0.5 + places)


def test_the_table():
    made = embedding_table(2000, 64, pad=7)
    assert not made.weight[7].any()
    made(torch.tensor([7, 8])).sum().backward()
    assert not made.weight.grad[7].any() and made.weight.grad[8].all()
    rest = made.weight.detach()[torch.arange(2000) != 7]
    assert abs(float(rest.std()) * 8 - 1) < 0.02  # √d · E has unit variance


@pytest.mark.parametrize("training", [True, False])
def test_dropout_in_training_alone(training):
    embedding = Embedding(embedding_table(10, 32, pad=0), build("none", 32, max_length=9), dropout=0.5).train(training)
    share = float((embedding(torch.full((4, 50), 3)) == 0).float().mean())
    assert abs(share - 0.5 * training) < 0.03
