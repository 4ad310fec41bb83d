"""Embeddings: scale, positions, zero padding, initial variance, dropout and word dropout."""

from __future__ import annotations

import pytest
import torch

from regard.core.data_specs import SpecialTokens
from regard.layers.embedding import Embedding, WordDropoutEmbedding, embedding_table
from regard.layers.positions import build


def test_scale_and_position():
    table = embedding_table(10, 6, pad=0)
    embedding = Embedding(table, build("sinusoidal", 6, max_length=9), dropout=0.0)
    tokens = torch.tensor([[3, 4, 0]])
    encoded = build("sinusoidal", 6, max_length=9).encode(torch.arange(2, 5), 5)
    torch.testing.assert_close(embedding(tokens, 2), table.weight[tokens] * 6**0.5 + encoded)


def test_the_table():
    table = embedding_table(2000, 64, pad=7)
    assert not table.weight[7].any()
    table(torch.tensor([7, 8])).sum().backward()
    assert not table.weight.grad[7].any() and table.weight.grad[8].all()
    rest = table.weight.detach()[torch.arange(2000) != 7]
    assert abs(float(rest.std()) * 8 - 1) < 0.02  # √d · E has unit variance


@pytest.mark.parametrize("training", [True, False])
def test_dropout_only_in_training(training):
    embedding = Embedding(embedding_table(10, 32, pad=0), build("none", 32, max_length=9), dropout=0.5).train(training)
    share = float((embedding(torch.full((4, 50), 3)) == 0).float().mean())
    assert abs(share - 0.5 * training) < 0.03


def test_words_are_dropped_at_the_given_rate():
    words = WordDropoutEmbedding(10, 3, special_tokens=SpecialTokens(), dropout=0.0, word_dropout=0.25)
    features = words(torch.full((4000,), 7))
    dropped = (features == words.table.weight[SpecialTokens.unk]).all(dim=-1).float().mean()
    assert 0.2 < dropped < 0.3
    words.eval()
    assert (words(torch.tensor([7])) == words.table.weight[7]).all()


def test_padding_is_zero_with_word_dropout():
    words = WordDropoutEmbedding(10, 3, special_tokens=SpecialTokens(), dropout=0.0, word_dropout=0.0)
    assert words(torch.tensor([0])).eq(0).all()
